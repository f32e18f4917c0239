package llm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

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
			l.WholeHistory = history // as the transcripts of turns that are over are
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

// BenchmarkStream reads a stream, ours and by OpenAI's own client, in one run. What
// counts is ns/event and allocs/event; the rest of a stream is small beside them.
func BenchmarkStream(b *testing.B) {
	for _, deltas := range []int{50, 5000} {
		events := sixty()
		body := sse(events[:4]...)
		for i := range deltas {
			body += sse(fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"BjgYrvTl4nSFH"}`, i+10))
		}
		body += sse(events[59])
		run := func(name string, read func(b *testing.B) int) {
			b.Run(fmt.Sprintf("%s/deltas=%d", name, deltas), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for b.Loop() {
					if got := read(b); got != 5*deltas {
						b.Fatalf("got %d bytes of text, want %d", got, 5*deltas)
					}
				}
				runtime.ReadMemStats(&after)
				n := float64(b.N * (deltas + 5))
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/event")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/event")
			})
		}
		c := llm.New(llm.Config{Transport: memory(body)})
		run("ours", func(b *testing.B) int {
			n := 0
			for ev, err := range c.Ask(b.Context(), &llm.Wire{}, true) {
				if err != nil {
					b.Fatal(err)
				}
				n += len(ev.Delta)
			}
			return n
		})
		theirs := openai.NewClient(option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: memory(body)}))
		run("openai-go", func(b *testing.B) int {
			n := 0
			stream := theirs.Responses.NewStreaming(b.Context(), responses.ResponseNewParams{Model: "m"})
			for stream.Next() {
				if ev := stream.Current(); ev.Type == "response.output_text.delta" {
					n += len(ev.Delta)
				}
			}
			if err := stream.Err(); err != nil {
				b.Fatal(err)
			}
			return n
		})
	}
}

// BenchmarkEncode makes the body of a request of about 100 KB: a long instruction, a
// mode layer, ten tools.
func BenchmarkEncode(b *testing.B) {
	const tools = 10
	text := strings.Repeat("All \"work\" & no <play>, füßlings.\n", 2400)
	schema := `{"type":"object","properties":{"path":{"type":"string","description":"` + strings.Repeat("where ", 60) + `"}},"required":["path"],"additionalProperties":false}`
	b.Run("ours", func(b *testing.B) {
		in, l := first()
		in.Request.Instruction, l.Tools = text, nil
		for i := range tools {
			l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"type":"function","name":"t%d","description":"d","parameters":%s,"strict":false}`, i, schema)))
		}
		c := prompt.Build(in)
		b.SetBytes(int64(len(llm.BuildWire(c, l).Bytes())))
		b.ReportAllocs()
		for b.Loop() {
			if w := llm.BuildWire(c, l); len(w.Bytes()) < 90_000 {
				b.Fatal("too short")
			}
		}
	})
	b.Run("openai-go", func(b *testing.B) {
		var parameters map[string]any
		if err := json.Unmarshal([]byte(schema), &parameters); err != nil {
			b.Fatal(err)
		}
		p := responses.ResponseNewParams{Model: "m", Instructions: openai.String("mode layer"), Input: responses.ResponseNewParamsInputUnion{
			OfInputItemList: responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)},
		}}
		for i := range tools {
			p.Tools = append(p.Tools, responses.ToolParamOfFunction(fmt.Sprintf("t%d", i), parameters, false))
		}
		whole, err := p.MarshalJSON()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(whole)))
		b.ReportAllocs()
		for b.Loop() {
			if body, err := p.MarshalJSON(); err != nil || len(body) < 90_000 {
				b.Fatal(len(body), err)
			}
		}
	})
}
