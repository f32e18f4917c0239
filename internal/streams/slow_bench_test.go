package streams

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// BenchmarkSlow tells what slow readers cost others: how long turns take beside fifty that
// take nothing of a stream and fifty that take a byte a second, and without them, in turns.
// It holds row L-3 of docs/limits.md.
func BenchmarkSlow(b *testing.B) {
	const rounds, turns, slow = 6, 400, 100
	r := newRig(b, options{}, large())
	_, _ = r.read(b, r.request(b, "POST", "/v1/agent/execute", execute), -1)
	answer := llmtest.Reply{Deltas: strings.SplitAfter(strings.Repeat("and so on ", 20), " ")}
	r.provider.Otherwise(func([]byte) llmtest.Reply { return answer })
	n := 0
	// some sends turns one after the other, in sessions of ten, and returns what they took.
	some := func() (took []time.Duration) {
		for range turns {
			body := fmt.Sprintf(`{"sessionId":"q%d","turnId":"t%d","instruction":"Tell.","stream":true}`, n/10, n)
			n++
			began := time.Now()
			if got, _ := r.read(b, r.request(b, "POST", "/v1/agent/execute", body), -1); !strings.Contains(got, "event: turn.completed") {
				b.Fatalf("a turn has no end: %s", got)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	var alone, beside []time.Duration
	some() // warm
	for b.Loop() {
		for range rounds {
			alone = append(alone, some()...)
			leave := r.loiter(b, slow)
			beside = append(beside, some()...)
			leave()
		}
	}
	for _, p := range []float64{0.5, 0.99} {
		a, w := at(alone, p), at(beside, p)
		b.ReportMetric(float64(a.Microseconds())/1000, fmt.Sprintf("ms-p%.0f-alone", 100*p))
		b.ReportMetric(float64(w.Microseconds())/1000, fmt.Sprintf("ms-p%.0f-beside", 100*p))
		b.ReportMetric(float64(w)/float64(a), fmt.Sprintf("ratio-p%.0f", 100*p))
	}
}

// at returns the value below which a part of the values is.
func at(values []time.Duration, part float64) time.Duration {
	slices.Sort(values)
	return values[int(part*float64(len(values)-1))]
}

// loiter has readers of the first turn's stream that take nothing of it, and as many that
// take a byte a second, until leave is called. Nothing more can be sent to any of them.
func (r *rig) loiter(b *testing.B, n int) (leave func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var dripping sync.WaitGroup
	var conns []net.Conn
	for i := range n {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			b.Fatal(err)
		}
		if err := r.request(b, "GET", "/v1/sessions/s/turns/t/events", "").Write(c); err != nil {
			b.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		dripping.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
						return
					}
				}
			}
		})
	}
	time.Sleep(2 * time.Second) // what the system keeps for them is full
	return func() {
		cancel()
		for _, c := range conns {
			_ = c.Close()
		}
		dripping.Wait()
	}
}
