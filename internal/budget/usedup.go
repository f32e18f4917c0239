package budget

import (
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// UsedUp says that nothing is left of a budget.
type UsedUp struct {
	Budget Budget
	Unit   Unit
}

// Error says which.
func (u *UsedUp) Error() string {
	what := u.Budget.Limit.in(u.Unit)
	switch u.Budget.Name {
	case OfTurn:
		return fmt.Sprintf("The turn's budget of %s is used up.", what)
	case OfSession:
		return fmt.Sprintf("The session's budget of %s is used up.", what)
	}
	return fmt.Sprintf("The organisation's budget of %s for the %s is used up; it begins anew at %s.",
		what, u.Budget.Name, u.Budget.Resets.Format(time.RFC3339))
}

// refusal is the fault of a turn that was not begun. Waiting helps against budgets of a day or
// a month only.
func (u *UsedUp) refusal(now time.Time) error {
	if u.Budget.Resets.IsZero() {
		return agent.Errorf(agent.KindLimitReached, "%s Start a new session.", u.Error())
	}
	e := agent.Errorf(agent.KindRateLimited, "%s Send the turn again then.", u.Error())
	e.RetryAfter = u.Budget.Resets.Sub(now)
	return e
}

// end is the fault of a turn that was running.
func (u *UsedUp) end() error {
	return agent.Errorf(agent.KindLimitReached, "%s What the turn has done so far is in its journal.", u.Error())
}
