package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// counted counts the journals that are read, and holds each back for a moment so that
// readers do meet, however quick the disk is.
type counted struct {
	pipeline.Store
	steps atomic.Int64
}

func (c *counted) Steps(ctx context.Context, key agent.TurnKey) ([]agent.Step, error) {
	c.steps.Add(1)
	time.Sleep(20 * time.Millisecond)
	return c.Store.Steps(ctx, key)
}

// L-5: all readers of a turn come back at once, as when a proxy restarts: each gets the rest
// of the stream, and the store is not asked by each of them.
func TestStorm_ReadersComeBackAtOnce(t *testing.T) {
	readers := 1000
	if long() {
		readers = 10_000
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			var store *counted
			r := newRig(t, options{journal: func(s pipeline.Store) pipeline.Store {
				store = &counted{Store: s}
				return store
			}}, story()...)
			whole, _ := r.read(t, r.request(t, "POST", door.path, door.body), -1)
			events := strings.SplitAfter(strings.TrimSuffix(whole, "\n\n"), "\n\n")
			before := store.steps.Load()

			start := time.Now()
			slots := make(chan struct{}, 1000) // connections that are open at the same time
			var wg sync.WaitGroup
			for i := range readers {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					seen := 1 + i%(len(events)-1)
					req := r.request(t, "GET", "/v1/sessions/s/turns/t/events", "", "Last-Event-ID", fmt.Sprint(seen))
					if name == "second door" {
						id := last(events[0], `"response":{"id":"`)
						req = r.request(t, "GET", fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", id, seen-1), "")
					}
					got, _ := r.read(t, req, -1)
					if want := strings.Join(events[seen:], "") + "\n\n"; got != want {
						t.Errorf("after event %d: got\n%s\nwant\n%s", seen, got, want)
					}
				})
			}
			wg.Wait()
			took, reads := time.Since(start), store.steps.Load()-before
			t.Logf("L-5: %d readers in %s, %d readings", readers, took.Round(time.Millisecond), reads)
			if reads >= int64(readers)/2 {
				t.Errorf("%d readings for %d readers", reads, readers)
			}
		})
	}
}

// Those who join a running turn need no journal at all.
func TestStorm_ReadersOfARunningTurn(t *testing.T) {
	var store *counted
	gate := make(chan struct{})
	r := newRig(t, options{journal: func(s pipeline.Store) pipeline.Store {
		store = &counted{Store: s}
		return store
	}}, llmtest.Reply{Deltas: []string{"One ", "two."}, Block: gate, BlockAfter: 5})
	const readers = 100
	got := make(chan string, readers+1)
	post := func() { text, _ := r.read(t, r.request(t, "POST", "/v1/agent/execute", execute), -1); got <- text }
	go post()
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	before := store.steps.Load()
	for range readers {
		go func() {
			text, _ := r.read(t, r.request(t, "GET", "/v1/sessions/s/turns/t/events", ""), -1)
			got <- text
		}()
	}
	close(gate)
	first := <-got
	for range readers {
		if text := <-got; text != first || !strings.Contains(text, "turn.completed") {
			t.Fatalf("two readers do not agree:\n%s\n%s", first, text)
		}
	}
	// Some may have come when it was over.
	if n := store.steps.Load() - before; n > readers/4 {
		t.Errorf("the journal was read %d times for %d readers of a running turn", n, readers)
	}
}

// L-4: connections that send half of their header, or of their body, keep nobody from being
// served, and are given up. That this takes no more than 10 s is TestConnection_HeadersThatDripAreGivenUp and those behind it in package server.
func TestSlowloris_DoesNotStopService(t *testing.T) {
	many := min(5000, files()/2-200) // each is open at both ends here
	if !long() {
		many = min(many, 1500)
	}
	var conns []net.Conn
	r := newRig(t, options{}, llmtest.Reply{Text: "Hello."})
	for i := range many {
		c := r.dial(t)
		conns = append(conns, c)
		head := "POST /v1/agent/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n"
		if i%2 == 0 {
			head += "\r\n{" // the body stands still; else the header does
		}
		if _, err := c.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	got, _ := r.read(t, r.request(t, http.MethodPost, "/v1/agent/execute", execute), -1)
	if !strings.Contains(got, "turn.completed") {
		t.Errorf("got\n%s", got)
	}
	t.Logf("L-4: a turn beside %d such connections took %s", many, time.Since(start).Round(time.Millisecond))
	if !long() {
		return
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection is still open")
		}
	}
	t.Logf("L-4: all of them were closed after %s", time.Since(start).Round(time.Millisecond))
}
