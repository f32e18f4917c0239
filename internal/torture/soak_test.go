package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var soakTime = flag.Duration("torture.soak", 4*time.Second, "how long the soak is")

// soakClients is how many work at a time.
const soakClients = 16

// TestSoak keeps a server busy with all that a turn can be while its provider fails and its
// clients hang up, cancel and erase, and looks at what it holds: when all is over, that is as
// much as after the first of it. The long form says how what it holds has grown under way. It
// holds row L-11 of docs/limits.md.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	s.drive(2*time.Second, nil) // pools and caches are full
	before := s.settle(func(vitals) bool { return true })
	var seen []vitals
	s.drive(*soakTime, func() { seen = append(seen, s.node.vitals()) })
	// A turn that leaks one of them leaks thousands.
	const few, bytes = 16, 8 << 20
	after := s.settle(func(now vitals) bool {
		return now.goroutines <= before.goroutines+few && now.files <= before.files+few && now.heap <= before.heap+bytes
	})
	t.Logf("L-11: %s of load, %d turns in %d sessions, %d faults of the provider, %d model calls", *soakTime, s.turns.Load(), s.made.Load(), s.faults.Load(), s.provider.asks.Load())
	t.Logf("L-11: at rest before: %s", before)
	t.Logf("L-11: at rest after:  %s", after)
	if len(seen) >= 20 {
		t.Logf("L-11: growth in an hour of load, from %d looks without the first third: %s", len(seen), growth(seen[len(seen)/3:]))
	}
	if s.turns.Load() == 0 || s.faults.Load() == 0 {
		t.Error("nothing has happened")
	}
}

// soak is a server, a provider that fails now and then, and clients that are in a hurry.
type soak struct {
	t        *testing.T
	node     *node
	provider *provider
	model    *httptest.Server
	client   *http.Client

	made, turns, faults atomic.Int64
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	c := newCampaign(t)
	s := &soak{t: t, provider: c.provider, client: c.client}
	s.model = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.model.Close)
	s.node = newNode(t, s.model.URL, c.ledger)
	s.node.start("")
	return s
}

// answer is the provider's, or one of its faults.
func (s *soak) answer(w http.ResponseWriter, r *http.Request) {
	fault := rand.IntN(60)
	if fault < 5 {
		s.faults.Add(1)
	}
	switch fault {
	case 0:
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	case 1:
		panic(http.ErrAbortHandler) // hangs up
	case 2:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")
	case 3:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"id":`)
	case 4:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		s.provider.ServeHTTP(w, r)
	}
}

// drive has clients work for a time, and looks ten times a minute, or once a second in a short
// run.
func (s *soak) drive(length time.Duration, look func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), length)
	defer cancel()
	var working sync.WaitGroup
	for i := range soakClients {
		working.Go(func() { s.work(ctx, rand.New(rand.NewPCG(uint64(i), uint64(length)))) })
	}
	tick := time.NewTicker(min(6*time.Second, max(time.Second, length/100)))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if look != nil {
				look()
			}
		}
	}
	working.Wait()
}

// work has one session after the other, with some turns in each.
func (s *soak) work(ctx context.Context, rng *rand.Rand) {
	plans := []string{"talk", "write", "twice", "wrong", "switch", "client", "mixed", "ask", "asks"}
	for ctx.Err() == nil {
		// What it finds odd, such as turns that fail, is what this load is made of.
		w := &worker{site: s.node, client: s.client, session: fmt.Sprintf("soak-%d", s.made.Add(1)), rng: rng}
		s.call(w, http.MethodPost, "/v1/sessions", map[string]any{"sessionId": w.session,
			"tools": []any{map[string]any{"type": "function", "name": "read_file", "description": "Reads.", "parameters": map[string]any{"type": "object"}}}})
		for n := range 1 + rng.IntN(12) {
			if ctx.Err() != nil {
				break
			}
			s.turns.Add(1)
			s.turn(ctx, w, &sent{id: fmt.Sprintf("t%d", n), plan: plans[rng.IntN(len(plans))], cancelled: true, seen: map[int64]frame{}})
		}
		s.call(w, http.MethodDelete, "/v1/sessions/"+w.session, nil) // with what still runs in it
	}
}

// turn sends a turn whose client may hang up, or have enough of it; at the end all do.
func (s *soak) turn(ctx context.Context, w *worker, t *sent) {
	patience := 20 * time.Second
	if w.rng.IntN(4) == 0 {
		patience = time.Duration(1+w.rng.IntN(40)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if w.rng.IntN(6) == 0 {
		hurry := time.AfterFunc(time.Duration(w.rng.IntN(30))*time.Millisecond, func() { s.call(w, http.MethodPost, w.turnPath(t)+"/cancel", nil) })
		defer hurry.Stop()
	}
	w.run(ctx, t)
}

// call sends a request, whatever comes of it.
func (s *soak) call(w *worker, method, path string, body any) {
	_, _, _ = w.call(s.t.Context(), method, path, body)
}
