package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/bench/sse"
)

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	tests := []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"events", "event: a\nid: 1\ndata: {}\n\nevent: b\ndata: 2\n\n", []string{"a|1|{}", "b||2"}, io.EOF},
		{"line ends of the web", "event: a\r\ndata: {}\r\n\r\n", []string{"a||{}"}, io.EOF},
		{"comments", ": hello\n\n: again\nevent: a\ndata: 1\n\n", []string{"a||1"}, io.EOF},
		{"longer than the buffer", "data: " + long + "\n\ndata: b\n\n", []string{"||" + long, "||b"}, io.EOF},
		{"cut", "data: a\n\ndata: b\n", []string{"||a"}, io.ErrUnexpectedEOF},
		{"cut in a line", "data: a\n\nda", []string{"||a"}, io.ErrUnexpectedEOF},
		{"empty", "", nil, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := sse.NewReader(iotest.OneByteReader(strings.NewReader(tt.stream)))
			var got []string
			for {
				e, err := r.Next()
				if err != nil {
					if !errors.Is(err, tt.err) {
						t.Errorf("ends with %v, want %v", err, tt.err)
					}
					break
				}
				got = append(got, string(e.Name)+"|"+string(e.ID)+"|"+string(e.Data))
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestReader_BoundsALine(t *testing.T) {
	if _, err := sse.NewReader(strings.NewReader(strings.Repeat("x", 2<<20))).Next(); err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("two MiB without a line end: %v", err)
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct{ object, member, want string }{
		{`{"type":"x","delta":" word"}`, "delta", " word"},
		{`{"delta":"a \"b\" c\\"}`, "delta", `a \"b\" c\\`},
		{`{"text":"delta","delta":"b"}`, "delta", "b"},
		{`{"mydelta":"a","delta":"b"}`, "delta", "b"},
		{`{"delta":""}`, "delta", ""},
		{`{"delta":1}`, "delta", ""},
		{`{"delta":"cut`, "delta", ""},
		{`{}`, "delta", ""},
	} {
		if got := string(sse.String([]byte(tt.object), tt.member)); got != tt.want {
			t.Errorf("String(%s, %s) = %q, want %q", tt.object, tt.member, got, tt.want)
		}
	}
}
