package llm

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/secret"
)

type plainEvent struct{ Name, Data string }

// readAll copies every event out: the reader lends its data only.
func readAll(r io.Reader, maxEvent int) ([]plainEvent, error) {
	s := newSSEReader(r, maxEvent)
	defer s.close()
	var out []plainEvent
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, plainEvent{string(e.Name), string(e.Data)})
	}
}

// pieces reads n bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(p.n, len(b))]) }

func TestSSEReader(t *testing.T) {
	two := []plainEvent{{"a", "1"}, {"", "2"}}
	for name, tc := range map[string]struct {
		in   string
		want []plainEvent
	}{
		"LF":                           {"event: a\ndata: 1\n\ndata: 2\n\n", two},
		"CR":                           {"event: a\rdata: 1\r\rdata: 2\r\r", two},
		"CRLF":                         {"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", two},
		"all of them":                  {"event: a\rdata: 1\n\r\ndata: 2\r\r\n", two},
		"BOM":                          {"\ufeffevent: a\ndata: 1\n\ndata: 2\n\n", two},
		"BOM in the middle is a field": {"data: 1\n\n\ufeffdata: 2\n\n", []plainEvent{{"", "1"}}},
		"comments":                     {": hi\nevent: a\n:\ndata: 1\n: data: 9\n\n:\n\ndata: 2\n\n", two},
		"no space after the colon":     {"event:a\ndata:1\n\ndata:2\n\n", two},
		"only one space is dropped":    {"data:  1\n\n", []plainEvent{{"", " 1"}}},
		"several data lines":           {"data: 1\ndata\ndata: 3\n\n", []plainEvent{{"", "1\n\n3"}}},
		"empty data is an event":       {"data\n\n", []plainEvent{{"", ""}}},
		"no data is none":              {"event: a\n\ndata: 2\n\n", []plainEvent{{"", "2"}}},
		"the last event name counts":   {"event: b\nevent: a\ndata: 1\n\n", []plainEvent{{"a", "1"}}},
		"other fields":                 {"id: 7\nretry: 5\nteapot\nevent: a\ndata: 1\n\n", []plainEvent{{"a", "1"}}},
		"colons in the data":           {"data: {\"a\": \"b: c\"}\n\n", []plainEvent{{"", `{"a": "b: c"}`}}},
		"a name behind the data":       {"data: 1\nevent: a\n\ndata: 2\n: and a comment\n\n", two},
		"cut in a line":                {"data: 1\n\ndata: 2", []plainEvent{{"", "1"}}},
		"cut before the blank line":    {"data: 1\n\ndata: 2\n", []plainEvent{{"", "1"}}},
		"nothing":                      {"", nil},
		"blank lines":                  {"\n\r\r\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			readers := map[string]io.Reader{
				"at once":      strings.NewReader(tc.in),
				"with the end": iotest.DataErrReader(strings.NewReader(tc.in)),
			}
			for n := range len(tc.in) {
				readers[fmt.Sprintf("%d at a time", n+1)] = pieces{strings.NewReader(tc.in), n + 1}
				readers[fmt.Sprintf("in two, of which one is %d", n)] = io.MultiReader(strings.NewReader(tc.in[:n]), strings.NewReader(tc.in[n:]))
			}
			for how, r := range readers {
				got, err := readAll(r, 1<<10)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("%s (-want +got)\n%s", how, d)
				}
			}
		})
	}
}

func TestSSEReader_LongLinesSpanItsBuffer(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	got, err := readAll(strings.NewReader("data: "+long+"\r\ndata: "+long+"\r\n\r\ndata: 2\r\n\r\n"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]plainEvent{{"", long + "\n" + long}, {"", "2"}}, got); d != "" {
		t.Errorf("(-want +got)\n%.200s", d)
	}
}

func TestSSEReader_BoundsAnEvent(t *testing.T) {
	for name, in := range map[string]string{
		"one line":            "data: " + strings.Repeat("x", 40<<10) + "\n\n",
		"a line without end":  "data: " + strings.Repeat("x", 40<<10),
		"many lines":          strings.Repeat("data: xxxxxxxxxxxxxxx\n", 4<<10) + "\n",
		"many empty lines":    strings.Repeat("data\n", 40<<10) + "\n",
		"a comment":           ":" + strings.Repeat("x", 40<<10) + "\n\n",
		"byte by byte, again": "event: " + strings.Repeat("x", 40<<10),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readAll(strings.NewReader(in), 20<<10); !errors.Is(err, errEventTooLarge) {
				t.Errorf("got %v, want %v", err, errEventTooLarge)
			}
		})
	}
}

func TestSSEReader_PassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	_, err := readAll(io.MultiReader(strings.NewReader("data: 1\n\nda"), iotest.ErrReader(broken)), 1<<10)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func FuzzSSEReader(f *testing.F) {
	f.Add("\ufeffevent: a\r\ndata: 1\r\r\ndata: 2\n\n")
	f.Add("data\n\n:\rdata:\xff\n\r")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := readAll(strings.NewReader(in), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := readAll(iotest.OneByteReader(strings.NewReader(in)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Fatalf("what is read depends on how it arrives (-whole +pieces)\n%s", d)
		}
		if d := cmp.Diff(plainly(in), whole); d != "" {
			t.Fatalf("the reader and the standard differ (-standard +reader)\n%s", d)
		}
	})
}

// plainly reads events as the HTML standard says it, word by word and without a thought
// for time or space.
func plainly(in string) []plainEvent {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var out []plainEvent
	var e plainEvent
	var data []string
	lines := strings.Split(in, "\n")
	for _, line := range lines[:len(lines)-1] { // what no line end follows never was
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.Data = strings.Join(data, "\n")
				out = append(out, e)
			}
			e, data = plainEvent{}, nil
		case name == "data":
			data = append(data, value)
		case name == "event":
			e.Name = value
		}
	}
	return out
}

// Whoever allocates while the collector runs has to help it; a stream must get on meanwhile.
func TestReducer_DeltasAllocateSeldom(t *testing.T) {
	r := reducer{c: New(Config{BaseURL: "http://h.example/v1", APIKey: secret.New("k3y")})}
	data := []byte(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":" word"}`)
	const n = 1000
	allocations := testing.AllocsPerRun(10, func() {
		for range n {
			if ev, _, err := r.apply(serverEvent{Data: data}); err != nil || ev.Delta != " word" {
				t.Fatalf("%q, %v", ev.Delta, err)
			}
		}
	})
	if allocations > n/50 {
		t.Errorf("%v allocations for %d deltas", allocations, n)
	}
}

// FuzzReducer feeds the events of a stream to the reducer as they would come in.
func FuzzReducer(f *testing.F) {
	f.Add("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":4,"delta":"x"}`)
	f.Add("", `{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"function_call"}]}}`)
	f.Add("error", `{"error":{"message":"\ud800"}}`)
	f.Fuzz(func(t *testing.T, name, data string) {
		r := reducer{c: New(Config{BaseURL: "http://h.example/v1", APIKey: secret.New("k3y")})}
		for range 2 {
			ev, terminal, err := r.apply(serverEvent{Name: []byte(name), Data: []byte(data)})
			if ev.Response != nil && err == nil && (!terminal || ev.Response.Status != statusCompleted || ev.Response.ID == "") {
				t.Fatalf("an answer that is none: %+v", ev.Response)
			}
			if err != nil && !errors.Is(err, errMalformed) && strings.Contains(err.Error(), "h.example") {
				t.Fatalf("the host is named: %v", err)
			}
		}
	})
}

// chunks reads in pieces of the given sizes, in turn.
type chunks struct {
	r     io.Reader
	sizes []int
	n     int
}

func (c *chunks) Read(p []byte) (int, error) {
	size := c.sizes[c.n%len(c.sizes)]
	c.n++
	return c.r.Read(p[:min(size, len(p))])
}

// Readers borrow large buffers from one another; whatever comes at a time, each has its
// own events.
func TestSSEReader_BorrowsBuffers(t *testing.T) {
	for i, sizes := range [][]int{{1}, {largeBuffer}, {smallBuffer}, {smallBuffer, 10}, {smallBuffer, largeBuffer, 1, 2000}, {7, 1023, 1025, 20000}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			t.Parallel()
			var in strings.Builder
			var want []plainEvent
			for n := range 200 {
				data := strings.Repeat(fmt.Sprintf("%d of %d;", n, i), n*n%700)
				want = append(want, plainEvent{Data: data})
				fmt.Fprintf(&in, "data: %s\n\n", data)
			}
			got, err := readAll(&chunks{r: strings.NewReader(in.String()), sizes: sizes}, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("-got +want\n%.2000s", diff)
			}
		})
	}
}
