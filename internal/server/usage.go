package server

import (
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
)

// Spending is what an organisation may spend, and what it has spent.
type Spending struct {
	Org agent.OrgID `json:"org"`
	// Budgets is empty where nothing is limited.
	Budgets []Budget `json:"budgets" doc:"One for each limit that is set; empty where nothing is limited."`
}

// Budget is one limit.
type Budget struct {
	Of    string      `json:"of" enum:"turn,session,day,month" doc:"What it is for: each turn, each session, or the organisation's day or month in UTC."`
	Unit  budget.Unit `json:"unit" enum:"tokens,cost,toolCalls,seconds" doc:"What is limited. A cost is in the unit of the configured prices; seconds are those in which turns run."`
	Limit float64     `json:"limit"`
	// Spent, Left and ResetsAt are of a day or a month only.
	Spent    *float64   `json:"spent,omitempty" doc:"Of a day or a month: what was spent of it."`
	Left     *float64   `json:"left,omitempty" doc:"Of a day or a month: what is left of it. It may be less than nothing by one model call."`
	ResetsAt *time.Time `json:"resetsAt,omitempty" doc:"Of a day or a month: when it begins anew."`
}

func (s *Server) usage(w http.ResponseWriter, r *http.Request) error {
	org := callerOf(r).Org
	standings, err := s.budgets.Standings(r.Context(), org)
	if err != nil {
		return err
	}
	out := Spending{Org: org, Budgets: []Budget{}}
	for _, st := range standings {
		for _, u := range budget.Units() {
			if st.Limit.Of(u) > 0 {
				out.Budgets = append(out.Budgets, limitOf(st, u))
			}
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// seconds is how times are told.
const seconds budget.Unit = "seconds"

func limitOf(st budget.Standing, u budget.Unit) Budget {
	v := Budget{Of: st.Name, Unit: u, Limit: plain(st.Limit, u)}
	if u == budget.Time {
		v.Unit = seconds
	}
	if !st.Resets.IsZero() {
		spent := plain(st.Spent, u)
		left := v.Limit - spent
		v.Spent, v.Left, v.ResetsAt = &spent, &left, &st.Resets
	}
	return v
}

// plain returns a member of an amount as it is told.
func plain(a budget.Amount, u budget.Unit) float64 {
	switch u {
	case budget.Money:
		return a.Cost.Units()
	case budget.Time:
		return a.Time.Seconds()
	}
	return float64(a.Of(u))
}
