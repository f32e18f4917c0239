package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// However many ask, the sessions are looked at once in boardFresh, and turns that are over
// are not read again.
func TestBoard(t *testing.T) {
	var b board
	var looks atomic.Int32
	clock := time.Unix(1000, 0)
	now := func() time.Time { return clock }
	ended := overviewRow{Key: agent.TurnKey{Turn: "ended"}, State: agent.TurnCompleted}
	runs := overviewRow{Key: agent.TurnKey{Turn: "runs"}, State: agent.TurnRunning}
	var given map[agent.TurnKey]overviewRow
	look := func(over map[agent.TurnKey]overviewRow) (overview, error) {
		looks.Add(1)
		given = over
		return overview{At: clock, Rows: []overviewRow{ended, runs}}, nil
	}
	ask := func(by agent.Caller, want int32) {
		t.Helper()
		o, err := b.read(t.Context(), by, now, look)
		if got := looks.Load(); err != nil || got != want || len(o.Rows) != 2 {
			t.Errorf("%s of %s: %d looks, want %d, with %d rows (%v)", by.User, by.Org, got, want, len(o.Rows), err)
		}
	}
	operator := agent.Caller{Org: "acme", User: "olga", Role: agent.RoleOperator}

	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _ = b.read(t.Context(), operator, now, look) })
	}
	wg.Wait()
	ask(operator, 1)
	ask(agent.Caller{Org: "acme", User: "adam", Role: agent.RoleAdmin}, 1)
	// A user sees his own, and nobody those of another organisation.
	ask(agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}, 2)
	ask(agent.Caller{Org: "acme", User: "bob", Role: agent.RoleUser}, 3)
	ask(agent.Caller{Org: "other", User: "olga", Role: agent.RoleOperator}, 4)

	clock = clock.Add(boardFresh)
	ask(operator, 5)
	if _, ok := given[ended.Key]; !ok || len(given) != 1 {
		t.Errorf("known to be over: %v", given)
	}

	clock = clock.Add(boardKept + time.Second)
	ask(operator, 6)
	if len(given) != 0 || len(b.last) != 1 {
		t.Errorf("after a long time %d rows of old looks are known, %d looks kept", len(given), len(b.last))
	}
}

// A look that fails is not kept, and who has gone does not wait.
func TestBoard_Failing(t *testing.T) {
	var b board
	broken := errors.New("the store is away")
	fail := func(map[agent.TurnKey]overviewRow) (overview, error) { return overview{}, broken }
	if _, err := b.read(t.Context(), agent.Local(), time.Now, fail); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := func(map[agent.TurnKey]overviewRow) (overview, error) {
		cancel()
		if _, err := b.read(ctx, agent.Local(), time.Now, fail); !errors.Is(err, context.Canceled) {
			t.Errorf("behind another look: %v", err)
		}
		return overview{At: time.Now()}, nil
	}
	if _, err := b.read(t.Context(), agent.Local(), time.Now, gone); err != nil {
		t.Error(err)
	}
}
