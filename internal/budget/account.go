package budget

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Account is what one run of a turn spends. The run's goroutine uses it.
type Account struct {
	keeper *Keeper
	run    Run
	plan   Plan
	price  Price
	// dropped tells that nothing is held which an earlier run has left.
	dropped bool
	// since is up to when the turn's time is charged.
	since time.Time
	// open is the call under way; its ticket is empty when there is none.
	open charge
	// asked is how many bytes were sent.
	asked int
}

// Run is a turn that runs.
type Run struct {
	Key agent.TurnKey
	// Model is whom it asks.
	Model string
	// Chained tells that the provider remembers what is not in the requests.
	Chained bool
	// Resumed tells that the turn has run before, on a process that may have died.
	Resumed bool
}

// Open returns the account of a run, nil when nothing limits it.
func (k *Keeper) Open(r Run) *Account {
	if k == nil {
		return nil
	}
	plan := k.Plans.of(r.Key.Org)
	if plan == (Plan{}) {
		return nil
	}
	return &Account{keeper: k, run: r, plan: plan, price: k.Plans.Prices[r.Model], dropped: !r.Resumed, since: k.Now()}
}

// settleTime bounds what has to be written also when the turn was broken off.
const settleTime = 30 * time.Second

// The waits between two looks at the ledger, for calls that others must end first.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 100 * time.Millisecond
)

// Reserve sets aside what a call of so many bytes may take, and waits when others of the
// organisation may take all that is left. A budget that is used up is
// agent.KindLimitReached. A call that is reserved already stays so.
func (a *Account) Reserve(ctx context.Context, bytes int) error {
	if a == nil || a.open.ticket != "" {
		return nil
	}
	if !a.dropped {
		if err := a.keeper.Ledger.DropHold(ctx, a.run.Key); err != nil {
			return err
		}
		a.dropped = true
	}
	ready := a.keeper.Now()
	done, err := a.keeper.looking.Pass(ctx, a.run.Key.Org)
	if err != nil {
		return err
	}
	defer done()
	for look := firstLook; ; look = min(2*look, lastLook) {
		err := a.reserve(ctx, bytes, ready.Sub(a.since)) // the wait is not the turn's time
		if used := (*UsedUp)(nil); errors.As(err, &used) {
			return used.end()
		}
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
}

func (a *Account) reserve(ctx context.Context, bytes int, worked time.Duration) error {
	now := a.keeper.Now()
	r := reservation{
		ticket: rand.Text(), budgets: a.plan.budgets(a.run.Key, now), most: a.most(bytes), chained: a.run.Chained,
		spent: Amount{Time: worked}, now: now, until: now.Add(a.keeper.CallTime + time.Minute),
	}
	if err := a.keeper.Ledger.Books(ctx, a.run.Key, r.into, r.entered); err != nil {
		return err
	}
	a.since, a.asked = now, bytes
	a.open = charge{ticket: r.ticket, budgets: r.budgets}
	return nil
}

// most is what a call may take by its size: a token is a byte or more.
func (a *Account) most(bytes int) Amount {
	u := agent.Usage{InputTokens: int64(bytes), OutputTokens: a.keeper.Plans.Answer}
	return Amount{Tokens: u.InputTokens + u.OutputTokens, Cost: a.price.Cost(u), Time: a.keeper.CallTime}
}

// Charge enters what a call took that is over, and how many tools its answer calls. These must
// not run when a budget of tool calls would be gone over: agent.KindLimitReached.
func (a *Account) Charge(ctx context.Context, u agent.Usage, toolCalls int) error {
	if a == nil || a.open.ticket == "" {
		return nil
	}
	now := a.keeper.Now()
	c := a.open
	c.spent = Amount{Tokens: max(u.TotalTokens, u.InputTokens+u.OutputTokens), Cost: a.price.Cost(u), ToolCalls: int64(toolCalls), Time: now.Sub(a.since)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	var refused *UsedUp
	err := a.keeper.Ledger.Books(ctx, a.run.Key, func(b Books) (err error) {
		refused, err = c.into(b)
		return err
	}, c.entered)
	if err != nil && !errors.Is(err, errDone) {
		return err
	}
	a.since, a.open = now, charge{}
	if refused != nil {
		return refused.end()
	}
	return nil
}

// bytesPerToken is what texts have on average; it is used where nobody tells how many tokens
// there were.
const bytesPerToken = 4

// BrokenOff ends a call that did not tell what it took; said is how many bytes of its answer
// came. Unless the provider refused it, that is estimated. Without a call it does nothing.
func (a *Account) BrokenOff(ctx context.Context, said int) {
	if a == nil || a.open.ticket == "" {
		return
	}
	var u agent.Usage
	if said > 0 || ctx.Err() != nil {
		u = agent.Usage{InputTokens: int64(a.asked / bytesPerToken), OutputTokens: int64(said / bytesPerToken)}
	}
	a.end(ctx, u)
}

// Release ends a call that was reserved and never sent. Without one it does nothing.
func (a *Account) Release(ctx context.Context) {
	if a != nil && a.open.ticket != "" {
		a.end(ctx, agent.Usage{})
	}
}

func (a *Account) end(ctx context.Context, u agent.Usage) {
	if err := a.Charge(ctx, u, 0); err != nil {
		a.keeper.Log.ErrorContext(ctx, "charge a model call that has no answer", "turn", a.run.Key.String(), "error", err)
	}
}
