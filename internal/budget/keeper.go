package budget

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/turnstile"
)

// Config holds the parts of a Keeper; all but Answer in Plans and Now are required.
type Config struct {
	Ledger Ledger
	Plans  Plans
	// CallTime is how long a model call may take at most: as long as its turn.
	CallTime time.Duration
	Log      *slog.Logger
	Now      func() time.Time
}

// Keeper holds turns to the budgets. It is safe for concurrent use, and other nodes may have
// theirs on the same ledger.
type Keeper struct {
	Config

	// looking is for the calls of an organisation that wait for others to end: one at a time
	// looks at the ledger.
	looking turnstile.Turnstiles[agent.OrgID]
}

// New returns a keeper, or an error when a part is missing. Without any limit it is nil.
func New(c Config) (*Keeper, error) {
	if !c.Plans.Any() {
		return nil, nil
	}
	if c.Ledger == nil || c.Log == nil || c.CallTime <= 0 {
		return nil, errors.New("budget: Ledger, CallTime and Log are all required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Plans.Answer <= 0 {
		c.Plans.Answer = DefaultAnswer
	}
	return &Keeper{Config: c}, nil
}

// DefaultAnswer is how many tokens an answer may have where nothing is configured: no model
// of today gives more.
const DefaultAnswer = 128_000

// Admit refuses a new turn when a budget is used up that it would spend of: of a day or a
// month with agent.KindRateLimited and the time until the next one, of its session with
// agent.KindLimitReached.
func (k *Keeper) Admit(ctx context.Context, key agent.TurnKey) error {
	if k == nil {
		return nil
	}
	now := k.Now()
	plan := k.Plans.of(key.Org)
	plan.Turn = Amount{} // nothing is spent of it yet
	budgets := plan.budgets(key, now)
	spent, err := k.spent(ctx, key.Org, budgets)
	if err != nil {
		return err
	}
	for i, b := range budgets {
		if unit, over := b.Limit.reached(spent[i]); over {
			return (&UsedUp{Budget: b, Unit: unit}).refusal(now)
		}
	}
	return nil
}

func (k *Keeper) spent(ctx context.Context, org agent.OrgID, budgets []Budget) ([]Amount, error) {
	if len(budgets) == 0 {
		return nil, nil
	}
	scopes := make([]Scope, len(budgets))
	for i, b := range budgets {
		scopes[i] = b.Scope
	}
	return k.Ledger.Spent(ctx, org, scopes)
}

// Standing is a budget and what was spent of it.
type Standing struct {
	Budget
	// Spent is of a day or a month only: of the others there are many.
	Spent Amount
}

// Standings returns the budgets of an organisation.
func (k *Keeper) Standings(ctx context.Context, org agent.OrgID) ([]Standing, error) {
	if k == nil {
		return nil, nil
	}
	var out []Standing
	var shared []Budget
	for _, b := range k.Plans.of(org).budgets(agent.TurnKey{Org: org}, k.Now()) {
		out = append(out, Standing{Budget: b})
		if b.shared() {
			shared = append(shared, b) // they come first
		}
	}
	spent, err := k.spent(ctx, org, shared)
	if err != nil {
		return nil, err
	}
	for i := range spent {
		out[i].Spent = spent[i]
	}
	return out, nil
}

// Drop gives up what a turn holds that ended where it did not run.
func (k *Keeper) Drop(ctx context.Context, key agent.TurnKey) {
	if k == nil {
		return
	}
	if err := k.Ledger.DropHold(ctx, key); err != nil {
		k.Log.ErrorContext(ctx, "give up what a turn holds of its budgets", "turn", key.String(), "error", err)
	}
}
