package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// Books runs work on the ledger of the turn's organisation, as one unit of writing: nobody
// else writes meanwhile, and its outcome is always known.
func (s *Store) Books(ctx context.Context, key agent.TurnKey, work func(budget.Books) error, _ func(budget.Books) (bool, error)) error {
	return s.write(ctx, fmt.Sprintf("keep the books of turn %s", key), func(ctx context.Context, q *db.Queries) error {
		return work(books{ctx, q, key})
	})
}

// Spent returns what was spent of each scope.
func (s *Store) Spent(ctx context.Context, org agent.OrgID, scopes []budget.Scope) ([]budget.Amount, error) {
	out := make([]budget.Amount, len(scopes))
	for i, scope := range scopes {
		e, _, err := books{ctx, s.read, agent.TurnKey{Org: org}}.Find(scope)
		if err != nil {
			return nil, explain(fmt.Sprintf("read what %s has spent", org), err)
		}
		out[i] = e.Spent
	}
	return out, nil
}

// DropHold gives up what a turn holds.
func (s *Store) DropHold(ctx context.Context, k agent.TurnKey) error {
	return s.write(ctx, fmt.Sprintf("give up what turn %s holds", k), func(ctx context.Context, q *db.Queries) error {
		return q.DropHold(ctx, db.DropHoldParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
	})
}

// books are the entries of a turn's organisation.
type books struct {
	ctx context.Context
	q   *db.Queries
	key agent.TurnKey
}

func (b books) Open(at budget.Scope) (budget.Entry, error) {
	row, err := b.q.OpenSpent(b.ctx, db.OpenSpentParams{Org: b.key.Org, SessionID: at.Session, TurnID: at.Turn, Period: at.Period})
	return entryOf(row), err
}

func (b books) Find(at budget.Scope) (budget.Entry, bool, error) {
	row, err := b.q.Spent(b.ctx, db.SpentParams{Org: b.key.Org, SessionID: at.Session, TurnID: at.Turn, Period: at.Period})
	if errors.Is(err, sql.ErrNoRows) {
		return budget.Entry{}, false, nil
	}
	return entryOf(row), err == nil, err
}

func (b books) Add(at budget.Scope, a budget.Amount) error {
	return b.q.AddSpent(b.ctx, db.AddSpentParams{Org: b.key.Org, SessionID: at.Session, TurnID: at.Turn, Period: at.Period,
		Tokens: a.Tokens, Cost: int64(a.Cost), ToolCalls: a.ToolCalls, Time: a.Time.Microseconds()})
}

func (b books) Held(now time.Time) (int64, budget.Amount, error) {
	row, err := b.q.Held(b.ctx, db.HeldParams{Org: b.key.Org, SessionID: b.key.Session, TurnID: b.key.Turn, Now: micros(now)})
	return row.Calls, budget.Amount{Tokens: row.Tokens, Cost: budget.Cost(row.Cost), Time: time.Duration(row.Time) * time.Microsecond}, err
}

func (b books) Ticket() (string, error) {
	ticket, err := b.q.Ticket(b.ctx, db.TicketParams{Org: b.key.Org, SessionID: b.key.Session, TurnID: b.key.Turn})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return ticket, err
}

func (b books) Hold(ticket string, most budget.Amount, until time.Time) error {
	return b.q.PutHold(b.ctx, db.PutHoldParams{Org: b.key.Org, SessionID: b.key.Session, TurnID: b.key.Turn, Ticket: ticket,
		Tokens: most.Tokens, Cost: int64(most.Cost), Time: most.Time.Microseconds(), Until: micros(until)})
}

func (b books) Release(ticket string) (bool, error) {
	n, err := b.q.TakeHold(b.ctx, db.TakeHoldParams{Org: b.key.Org, SessionID: b.key.Session, TurnID: b.key.Turn, Ticket: ticket})
	return n > 0, err
}

func entryOf(r db.BudgetSpent) budget.Entry {
	return budget.Entry{
		Spent: budget.Amount{Tokens: r.Tokens, Cost: budget.Cost(r.Cost), ToolCalls: r.ToolCalls,
			Time: time.Duration(r.Time) * time.Microsecond},
		Largest: budget.Amount{Tokens: r.LargestTokens, Cost: budget.Cost(r.LargestCost)},
	}
}
