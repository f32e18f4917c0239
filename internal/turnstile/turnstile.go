// Package turnstile lets one at a time through for each key, in the order in which they came,
// such as those of one organisation that look at a ledger. In a turn it keeps those who
// wait for the same thing from asking for it all at once.
package turnstile

import (
	"context"
	"sync"
)

// Turnstiles are one for each key, for as long as somebody is at it. The zero value is ready.
type Turnstiles[K comparable] struct {
	mu  sync.Mutex // guards all
	all map[K]*turnstile
}

type turnstile struct {
	users int
	turn  chan struct{}
}

// Pass waits until everybody before is done. It fails with the cause of ctx.
func (t *Turnstiles[K]) Pass(ctx context.Context, k K) (done func(), err error) {
	at := t.join(k)
	select {
	case at.turn <- struct{}{}:
		return func() { <-at.turn; t.leave(k, at) }, nil
	case <-ctx.Done():
		t.leave(k, at)
		return nil, context.Cause(ctx)
	}
}

func (t *Turnstiles[K]) join(k K) *turnstile {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[K]*turnstile{}
	}
	at := t.all[k]
	if at == nil {
		at = &turnstile{turn: make(chan struct{}, 1)}
		t.all[k] = at
	}
	at.users++
	return at
}

func (t *Turnstiles[K]) leave(k K, at *turnstile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(t.all, k)
	}
}
