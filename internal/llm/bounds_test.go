package llm_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// carrier is a transport within the process: what write writes is the body, and it
// may take its time.
type carrier struct {
	contentType string
	delay       time.Duration // before the status line
	write       func(ctx context.Context, w io.Writer)
}

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(c.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	body, w := io.Pipe()
	go func() {
		c.write(r.Context(), w)
		_ = w.Close()
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {c.contentType}}, Body: body, Request: r}, nil
}

func stall(ctx context.Context) { <-ctx.Done() }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestStream_SilenceAfterEachEventEndsByTheIdleTimer(t *testing.T) {
	events := sixty()
	for n := range events {
		synctest.Test(t, func(t *testing.T) {
			c := llm.New(llm.Config{Transport: carrier{"text/event-stream", 0, func(ctx context.Context, w io.Writer) {
				_, _ = io.WriteString(w, sse(events[:n]...))
				stall(ctx)
			}}})
			start := time.Now()
			g := ask(t, c, true)
			want(t, agent.FaultOf(g.Err), agent.Fault{Kind: agent.KindProviderTimeout, Message: "The provider sent nothing for 1m0s; try again later."})
			want(t, time.Since(start), time.Minute)
		})
	}
}

func TestAsk_HowLongAnAnswerMayTake(t *testing.T) {
	whole := sse(sixty()...)
	drip := func(every time.Duration, tail func(context.Context)) func(context.Context, io.Writer) {
		return func(ctx context.Context, w io.Writer) {
			for _, e := range sixty() {
				pause(ctx, every)
				if _, err := io.WriteString(w, sse(e)); err != nil {
					return
				}
			}
			tail(ctx)
		}
	}
	idle := "The provider sent nothing for 1m0s; try again later."
	for name, tc := range map[string]struct {
		cfg    llm.Config
		stream bool
		carrier
		took time.Duration
		want string
	}{
		"silence before a stream begins": {llm.Config{}, true, carrier{"text/event-stream", time.Hour, nil}, time.Minute, idle},
		"silence before a document is just work": {llm.Config{}, false,
			carrier{"application/json", 9 * time.Minute, func(_ context.Context, w io.Writer) { _, _ = io.WriteString(w, document) }}, 9 * time.Minute, ""},
		"but not for ever": {llm.Config{}, false, carrier{"application/json", time.Hour, nil}, 10 * time.Minute,
			"The provider did not finish within 10m0s; try again later."},
		"silence in a document": {llm.Config{}, false, carrier{"application/json", time.Second, func(ctx context.Context, w io.Writer) {
			_, _ = io.WriteString(w, document[:9])
			stall(ctx)
		}}, time.Minute + time.Second, idle},
		"a slow stream is not silent": {llm.Config{}, true, carrier{"text/event-stream", 0, drip(9*time.Second, func(context.Context) {})}, 9 * time.Minute, ""},
		"a stream that drags on": {llm.Config{}, true, carrier{"text/event-stream", 0, drip(50*time.Second, stall)}, 10 * time.Minute,
			"The provider did not finish within 10m0s; try again later."},
		"shorter times are kept": {llm.Config{IdleTimeout: 2 * time.Second, Timeout: 3 * time.Second}, true,
			carrier{"text/event-stream", 0, func(ctx context.Context, _ io.Writer) { stall(ctx) }}, 2 * time.Second,
			"The provider sent nothing for 2s; try again later."},
		"a stream that stays open after its end": {llm.Config{}, true, carrier{"text/event-stream", 0, func(ctx context.Context, w io.Writer) {
			_, _ = io.WriteString(w, whole)
			stall(ctx)
		}}, 100 * time.Millisecond, ""},
		"one that goes on after its end": {llm.Config{}, true, carrier{"text/event-stream", 0, func(ctx context.Context, w io.Writer) {
			_, _ = io.WriteString(w, whole)
			for {
				if _, err := io.WriteString(w, ":\n"); err != nil {
					return
				}
				pause(ctx, 30*time.Millisecond)
			}
		}}, 100 * time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.cfg.Transport = tc.carrier
				start := time.Now()
				g := ask(t, llm.New(tc.cfg), tc.stream)
				want(t, time.Since(start), tc.took)
				if tc.want == "" {
					want(t, g.Err, nil)
					want(t, g.Response.ID, "resp_1")
					return
				}
				want(t, agent.FaultOf(g.Err), agent.Fault{Kind: agent.KindProviderTimeout, Message: tc.want})
			})
		})
	}
}

func TestStream_ASlowReaderIsNotAProvidersSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := llm.New(llm.Config{Transport: carrier{"text/event-stream", 0, func(_ context.Context, w io.Writer) {
			for _, e := range sixty()[:8] {
				_, _ = io.WriteString(w, sse(e))
			}
			_, _ = io.WriteString(w, sse(sixty()[59]))
		}}})
		var g got
		for ev, err := range c.Ask(t.Context(), &llm.Wire{}, true) {
			g.take(t, ev, err)
			time.Sleep(90 * time.Second)
		}
		want(t, g.Err, nil)
	})
}

func TestAsk_BoundsTheBytesOfAnAnswer(t *testing.T) {
	const tooLarge = "The provider's answer is larger than this server takes."
	whole := sse(sixty()...)
	endless := func(piece string) carrier {
		return carrier{"text/event-stream", 0, func(_ context.Context, w io.Writer) {
			for {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
			}
		}}
	}
	large := strings.Repeat("x", 64<<10)
	for name, tc := range map[string]struct {
		max    int64
		stream bool
		by     http.RoundTripper
		want   string
	}{
		"as long as allowed":    {int64(len(whole)), true, fixed("text/event-stream", whole), ""},
		"a document too long":   {int64(len(document)) - 1, false, fixed("application/json", document), tooLarge},
		"a document just right": {int64(len(document)), false, fixed("application/json", document), ""},
		"endless events":        {1 << 20, true, endless(sse(`{"type":"response.output_text.delta","delta":""}`)), tooLarge},
		"endless comments":      {1 << 20, true, endless(":\n"), tooLarge},
		"an endless line":       {1 << 20, true, endless(large), tooLarge},
		"an endless event":      {1 << 20, true, endless("data: " + large + "\n"), tooLarge},
		"one event of 64 MiB by the defaults": {0, true, carrier{"text/event-stream", 0, func(_ context.Context, w io.Writer) {
			_, _ = io.WriteString(w, `data: {"type":"response.output_text.delta","delta":"`)
			for range 1024 {
				if _, err := io.WriteString(w, large); err != nil {
					return
				}
			}
		}}, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			g := ask(t, llm.New(llm.Config{Transport: tc.by, MaxBytes: tc.max}), tc.stream)
			if tc.want == "" {
				want(t, g.Err, nil)
				return
			}
			want(t, agent.FaultOf(g.Err), agent.Fault{Kind: agent.KindProviderFailed, Message: tc.want})
		})
	}
}

// fixed is a transport that always gives the same answer.
func fixed(contentType, body string) http.RoundTripper {
	return carrier{contentType, 0, func(_ context.Context, w io.Writer) { _, _ = io.WriteString(w, body) }}
}

func TestAsk_AThousandCallsInOneAnswer(t *testing.T) {
	var b bytes.Buffer
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`, i)
	}
	g := ask(t, llm.New(llm.Config{Transport: fixed("application/json", `{"id":"r","status":"completed","output":[`+b.String()+`]}`)}), false)
	want(t, g.Err, nil)
	want(t, len(g.Response.Calls()), 1000)
}
