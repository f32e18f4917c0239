package llm_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/prompt"
)

func BenchmarkBuildWire(b *testing.B) {
	for _, history := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			in, l := first()
			for range history {
				l.History = append(l.History, []byte(itemText))
			}
			c := prompt.Build(in)
			b.ReportAllocs()
			for b.Loop() {
				if w := llm.BuildWire(c, l); len(w.Bytes()) == 0 {
					b.Fatal("no bytes")
				}
			}
		})
	}
}

// memory is a transport that answers from memory, so that only the client is measured.
type memory string

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(string(m))), Request: r}, nil
}

func BenchmarkStream(b *testing.B) {
	for _, deltas := range []int{50, 5000} {
		b.Run(fmt.Sprintf("deltas=%d", deltas), func(b *testing.B) {
			events := sixty()
			body := sse(events[:4]...)
			for i := range deltas {
				body += sse(fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"word ","logprobs":[]}`, i+10))
			}
			body += sse(events[59])
			c := llm.New(llm.Config{Transport: memory(body)})
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for ev, err := range c.Ask(b.Context(), nil, true) {
					if err != nil {
						b.Fatal(err)
					}
					n += len(ev.Delta)
				}
				if n != 5*deltas {
					b.Fatalf("got %d bytes of text, want %d", n, 5*deltas)
				}
			}
		})
	}
}
