package pipeline

import (
	"context"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

// sharedReads lets those who want the same journal at the same time read it once. A
// reading is shared only with callers who asked before it began: what they have
// learnt earlier, such as that nothing is live any more, is in it.
type sharedReads struct {
	mu    sync.Mutex // guards turns
	turns map[agent.TurnKey]*sharedRead
}

type sharedRead struct {
	place chan struct{} // held by whoever reads

	// What follows is guarded by sharedReads.mu.
	users int
	begun int         // readings so far
	last  int         // the number of the reading that got was the result of
	got   *projection // read only, since it is shared
}

// do returns what a reading gives that begins after the call of do. Faults are not
// shared, so that nobody fails by another one's context.
func (s *sharedReads) do(ctx context.Context, key agent.TurnKey, read func() (*projection, error)) (*projection, error) {
	s.mu.Lock()
	if s.turns == nil {
		s.turns = map[agent.TurnKey]*sharedRead{}
	}
	r := s.turns[key]
	if r == nil {
		r = &sharedRead{place: make(chan struct{}, 1)}
		s.turns[key] = r
	}
	r.users++
	before := r.begun
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.users--; r.users == 0 {
			delete(s.turns, key)
		}
	}()

	select {
	case r.place <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-r.place }()
	s.mu.Lock()
	if r.last > before {
		defer s.mu.Unlock()
		return r.got, nil
	}
	r.begun++
	number := r.begun
	s.mu.Unlock()

	got, err := read()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.last, r.got = number, got
	return got, nil
}
