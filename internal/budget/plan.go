package budget

import (
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Plan are the budgets of an organisation: of each of its turns, of each of its sessions,
// and its own of a day and of a month, in UTC.
type Plan struct{ Turn, Session, Day, Month Amount }

// Plans say which organisation has which budgets.
type Plans struct {
	// Default is the plan of organisations that have none of their own.
	Default       Plan
	Organisations map[agent.OrgID]Plan
	// Prices by model.
	Prices map[string]Price
	// Answer is how many tokens one answer of a model may have at most; default 128,000.
	Answer int64
}

// Any reports whether anything is limited at all.
func (p Plans) Any() bool {
	if p.Default != (Plan{}) {
		return true
	}
	for _, own := range p.Organisations {
		if own != (Plan{}) {
			return true
		}
	}
	return false
}

// Costs reports whether money is limited anywhere.
func (p Plans) Costs() bool {
	if p.Default.costs() {
		return true
	}
	for _, own := range p.Organisations {
		if own.costs() {
			return true
		}
	}
	return false
}

func (p Plan) costs() bool {
	return p.Turn.Cost > 0 || p.Session.Cost > 0 || p.Day.Cost > 0 || p.Month.Cost > 0
}

func (p Plans) of(org agent.OrgID) Plan {
	if own, ok := p.Organisations[org]; ok {
		return own
	}
	return p.Default
}

// Scope is what an amount is counted for: the whole organisation when nothing is set.
type Scope struct {
	Session agent.SessionID
	Turn    agent.TurnID
	// Period is a day (2026-01-31) or a month (2026-01) of the organisation, empty for all
	// time.
	Period string
}

// Budget is one limit of a plan at a moment.
type Budget struct {
	// Name says whose it is: turn, session, day or month.
	Name  string
	Scope Scope
	Limit Amount
	// Resets is when it begins anew; zero for one that does not.
	Resets time.Time
}

// The names of budgets.
const (
	OfTurn    = "turn"
	OfSession = "session"
	OfDay     = "day"
	OfMonth   = "month"
)

// shared reports whether turns may spend of it at the same time.
func (b Budget) shared() bool { return b.Name == OfDay || b.Name == OfMonth }

// budgets returns the limits that hold for a turn at a moment, the widest first.
func (p Plan) budgets(key agent.TurnKey, now time.Time) []Budget {
	now = now.UTC()
	year, month, day := now.Date()
	all := []Budget{
		{Name: OfMonth, Limit: p.Month, Scope: Scope{Period: now.Format("2006-01")}, Resets: time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)},
		{Name: OfDay, Limit: p.Day, Scope: Scope{Period: now.Format(time.DateOnly)}, Resets: time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)},
		{Name: OfSession, Limit: p.Session, Scope: Scope{Session: key.Session}},
		{Name: OfTurn, Limit: p.Turn, Scope: Scope{Session: key.Session, Turn: key.Turn}},
	}
	var out []Budget
	for _, b := range all {
		if b.Limit != (Amount{}) {
			out = append(out, b)
		}
	}
	return out
}
