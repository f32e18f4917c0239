package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/aptixhq/aptix/internal/invariants"
)

// switchers are clients who switch and read the mode of one session after the other, all
// at the same time, and remember what they were told.
type switchers struct {
	c  *campaign
	at site

	sessions int
	accesses int
	lost     int // whose outcome nobody knows
}

// How many clients there are, and how often each asks in one session. Whether a history has
// an order is hard to tell when it is long and much of it is lost.
const (
	switching      = 4
	accessesOfEach = 12
)

// work goes on until ctx ends.
func (s *switchers) work(ctx context.Context) {
	for ctx.Err() == nil {
		s.sessions++
		session := fmt.Sprintf("m%d", s.sessions)
		w := &worker{site: s.at, client: s.c.client, session: session}
		created := false
		for !created && ctx.Err() == nil {
			status, _, err := w.call(ctx, http.MethodPost, "/v1/sessions", map[string]any{"sessionId": session})
			created = err == nil && (status == http.StatusCreated || status == http.StatusConflict)
		}
		history := s.session(ctx, w)
		if result := porcupine.CheckOperationsTimeout(invariants.ModeRegister, history, 20*time.Second); result == porcupine.Illegal {
			s.c.t.Errorf("session %s: %d accesses to its mode have no order: %v", session, len(history), history)
		}
	}
}

func (s *switchers) session(ctx context.Context, w *worker) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	var clients sync.WaitGroup
	for who := range switching {
		clients.Go(func() {
			for n := range accessesOfEach {
				if ctx.Err() != nil {
					return
				}
				mode := ""
				if rand.IntN(2) == 0 {
					mode = []string{"general", "other"}[(who+n)%2]
				}
				op := porcupine.Operation{ClientId: who, Input: invariants.ModeAccess{Mode: mode}, Call: time.Since(began).Nanoseconds()}
				told, known := access(ctx, w, mode)
				op.Output, op.Return = told, time.Since(began).Nanoseconds()
				mu.Lock()
				s.accesses++
				switch {
				case known:
					history = append(history, op)
				case mode != "":
					// It may have happened, or may yet, or never: that is as good as very late.
					s.lost++
					op.Return = math.MaxInt64
					history = append(history, op)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return history
}

// access switches to a mode, or reads it when that is empty. Known tells that there was an
// answer, which says what the session was like.
func access(ctx context.Context, w *worker, mode string) (told invariants.ModeSeen, known bool) {
	method, path, body := http.MethodGet, "/v1/sessions/"+w.session, any(nil)
	if mode != "" {
		method, path, body = http.MethodPut, path+"/mode", map[string]any{"mode": mode, "reason": "r"}
	}
	status, text, err := w.call(ctx, method, path, body)
	var session struct {
		Mode    string
		Version int
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(text, &session) != nil {
		return invariants.ModeSeen{Changes: -1}, false
	}
	if mode != "" && session.Mode != mode {
		// A node lost the answer of the database, and found the change when others had
		// followed it: it tells how the session is by then.
		return invariants.ModeSeen{Changes: -1}, true
	}
	return invariants.ModeSeen{Mode: session.Mode, Changes: session.Version - 1}, true
}
