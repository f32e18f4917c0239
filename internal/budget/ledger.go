package budget

import (
	"context"
	"errors"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Ledger keeps what was spent and what calls under way may still take. Every keeper of the
// journal is one.
type Ledger interface {
	// Books runs work on the ledger of the turn's organisation, in one transaction that
	// fails with work's error. It may run it again; landed then tells whether an earlier
	// run has happened of which nobody was told.
	Books(ctx context.Context, key agent.TurnKey, work func(Books) error, landed func(Books) (bool, error)) error
	// Spent returns what was spent of each scope, nothing for one that is not there.
	Spent(ctx context.Context, org agent.OrgID, scopes []Scope) ([]Amount, error)
	// DropHold gives up what a turn holds, if it holds anything.
	DropHold(ctx context.Context, key agent.TurnKey) error
}

// Books are the entries of one organisation, seen by one of its turns, within a transaction.
type Books interface {
	// Open returns an entry, made when it was not there. Nobody else changes it until the
	// transaction ends.
	Open(Scope) (Entry, error)
	// Find returns an entry that may not be there, and whether it is.
	Find(Scope) (Entry, bool, error)
	// Add adds what a call took to an entry; one that is not there stays away.
	Add(Scope, Amount) error
	// Held returns how many calls of other turns are under way, and what they may take.
	Held(now time.Time) (calls int64, most Amount, err error)
	// Ticket is that of what the turn holds; empty when it holds nothing.
	Ticket() (string, error)
	// Hold holds an amount until a time, instead of what the turn has held.
	Hold(ticket string, most Amount, until time.Time) error
	// Release gives up what is held under a ticket, and reports whether anything was.
	Release(ticket string) (bool, error)
}

// Entry is what was spent of a scope, and the largest call so far.
type Entry struct{ Spent, Largest Amount }

// errBusy says that a call must wait until others of its organisation are over.
var errBusy = errors.New("others may take what is left of the budget")

// errDone says that a run before this one has happened.
var errDone = errors.New("it is in the books already")

// reservation is a call that is about to be sent.
type reservation struct {
	ticket  string
	budgets []Budget
	// most is what the call may take by its own size.
	most Amount
	// chained tells that the provider remembers what is not in the request.
	chained bool
	// spent is what the turn took since it was last charged: its time.
	spent      Amount
	now, until time.Time
}

// into enters the reservation, or fails with errBusy or a *UsedUp. All of an organisation
// pass one entry, so that none is judged by what another is about to change.
func (r reservation) into(b Books) error {
	all, err := b.Open(Scope{})
	if err != nil {
		return err
	}
	switch there, err := r.entered(b); {
	case err != nil:
		return err
	case there:
		return errDone
	}
	calls, held, err := b.Held(r.now)
	if err != nil {
		return err
	}
	for _, limit := range r.budgets {
		entry, err := b.Open(limit.Scope)
		if err != nil {
			return err
		}
		spent := entry.Spent.Plus(r.spent)
		// Tool calls are refused when they would go over: until then the model may answer.
		if unit, over := limit.Limit.withoutTools().reached(spent); over {
			return &UsedUp{Budget: limit, Unit: unit}
		}
		// The others may take all that is left and not more; then only this one can go over.
		if limit.shared() && calls > 0 && limit.Limit.exceeded(spent.Plus(held)) {
			return errBusy
		}
	}
	if r.spent != (Amount{}) {
		if err := r.add(b); err != nil {
			return err
		}
	}
	most := r.most
	if r.chained {
		// What the provider remembers is no more than an earlier call has taken.
		most = most.Plus(all.Largest)
	}
	return b.Hold(r.ticket, most, r.until)
}

func (r reservation) add(b Books) error {
	for _, limit := range r.budgets {
		if err := b.Add(limit.Scope, r.spent); err != nil {
			return err
		}
	}
	return nil
}

// entered tells whether the reservation is in the books.
func (r reservation) entered(b Books) (bool, error) {
	ticket, err := b.Ticket()
	return ticket == r.ticket, err
}

// charge is a call that is over.
type charge struct {
	ticket  string
	budgets []Budget
	spent   Amount
}

// into enters what the call took, and gives up what it has held. Tool calls that would go
// over a budget are not counted, and must not run: it returns that budget.
func (c charge) into(b Books) (*UsedUp, error) {
	if _, err := b.Open(Scope{}); err != nil {
		return nil, err
	}
	switch held, err := b.Release(c.ticket); {
	case err != nil:
		return nil, err
	case !held:
		return nil, errDone
	}
	refused, err := c.refused(b)
	if err != nil {
		return nil, err
	}
	spent := c.spent
	if refused != nil {
		spent.ToolCalls = 0
	}
	if err := b.Add(Scope{}, spent); err != nil {
		return nil, err
	}
	for _, limit := range c.budgets {
		if err := b.Add(limit.Scope, spent); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// refused returns a budget that the tool calls would go over.
func (c charge) refused(b Books) (*UsedUp, error) {
	if c.spent.ToolCalls == 0 {
		return nil, nil
	}
	for _, limit := range c.budgets {
		if limit.Limit.ToolCalls == 0 {
			continue
		}
		entry, _, err := b.Find(limit.Scope)
		if err != nil {
			return nil, err
		}
		if entry.Spent.ToolCalls+c.spent.ToolCalls > limit.Limit.ToolCalls {
			return &UsedUp{Budget: limit, Unit: ToolCalls}, nil
		}
	}
	return nil, nil
}

// entered tells whether the charge is in the books: its ticket is used.
func (c charge) entered(b Books) (bool, error) {
	ticket, err := b.Ticket()
	return ticket != c.ticket, err
}
