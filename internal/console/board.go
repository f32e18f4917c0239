package console

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/turnstile"
)

const (
	// boardFresh is how long a look at the sessions serves all who ask.
	boardFresh = 2 * time.Second
	// boardKept is how long one is kept when nobody asks.
	boardKept = time.Minute
)

// board keeps the last look at the newest sessions, so that many open live pages are one
// reader of the store: one look at a time, and a new one after boardFresh. The zero value is
// ready.
type board struct {
	looks turnstile.Turnstiles[audience]

	mu   sync.Mutex // guards last
	last map[audience]overview
}

// audience is whose sessions a look is at: a user's, or all of an organisation's.
type audience struct {
	org  agent.OrgID
	user agent.UserID
}

func audienceOf(by agent.Caller) audience {
	if by.OnlyOwn() {
		return audience{by.Org, by.User}
	}
	return audience{org: by.Org}
}

// read returns a look that is fresh. look is given the rows of the last one whose turns are
// over.
func (b *board) read(ctx context.Context, by agent.Caller, now func() time.Time, look func(over map[agent.TurnKey]overviewRow) (overview, error)) (overview, error) {
	whose := audienceOf(by)
	done, err := b.looks.Pass(ctx, whose)
	if err != nil {
		return overview{}, err
	}
	defer done()
	last := b.kept(whose, now())
	if age := now().Sub(last.At); age >= 0 && age < boardFresh {
		return last, nil
	}
	over := map[agent.TurnKey]overviewRow{}
	for _, row := range last.Rows {
		if row.State.Terminal() {
			over[row.Key] = row
		}
	}
	o, err := look(over)
	if err != nil {
		return overview{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[whose] = o
	return o, nil
}

// kept returns the last look, and forgets those that nobody asks for.
func (b *board) kept(whose audience, now time.Time) overview {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[audience]overview{}
	}
	maps.DeleteFunc(b.last, func(_ audience, o overview) bool { return now.Sub(o.At) > boardKept })
	return b.last[whose]
}
