package jsonstr_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/jsonstr"
)

func FuzzAppend(f *testing.F) {
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	for _, s := range []string{"", "plain", `quote " and \ slash`, "<b>&</b>", "é € 😀 \ufffd", "\u2027\u2028\u2029\u202a", "cut \xe2\x82", "\xed\xa0\x80", all.String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		got := jsonstr.Append([]byte("before"), s)
		if string(got) != "before"+strings.TrimSuffix(want.String(), "\n") {
			t.Errorf("got %s, want %s", got, want.String())
		}
	})
}
