package console

import (
	"context"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/store"
)

// liveSessions is how many sessions the overview looks at.
const liveSessions = 50

// overview is what the newest sessions are doing.
type overview struct {
	At                                  time.Time
	Running, Waiting, Failed, Completed int
	Usage                               agent.Usage
	Cost                                budget.Cost
	Rows                                []overviewRow
	More                                bool
}

// overviewRow is the last turn of a session.
type overviewRow struct {
	Key       agent.TurnKey
	Session   agent.SessionID
	Title     string
	State     agent.TurnState
	StateName string
	Fault     agent.Kind
	ModeName  string
	Usage     agent.Usage
	Cost      budget.Cost
	Ago       string

	updated time.Time
}

// live shows the last turns of the newest sessions, and what they cost.
func (c *Console) live(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	o, err := c.board.read(r.Context(), by, c.now, func(known map[agent.TurnKey]overviewRow) (overview, error) {
		return c.overview(r.Context(), by, known)
	})
	if err != nil {
		return err
	}
	if r.Header.Get("HX-Request") != "" {
		return fragment(w, "live", o)
	}
	return c.show(w, r, http.StatusOK, page{Title: "Live", Nav: "live", Body: "live-page", Data: o})
}

// overview looks at the newest sessions. The journals of turns that were over at the last
// look are not read again: nothing is added to them.
func (c *Console) overview(ctx context.Context, by agent.Caller, known map[agent.TurnKey]overviewRow) (overview, error) {
	sessions, next, err := c.sessions.List(ctx, by, store.Page{Limit: liveSessions})
	if err != nil {
		return overview{}, err
	}
	o := overview{At: c.now(), More: next != ""}
	for _, s := range sessions {
		turns, err := c.lastTurns(ctx, by, s, 1)
		if agent.KindOf(err) == agent.KindNotFound || err == nil && len(turns) == 0 {
			continue // erased meanwhile, or without a turn
		}
		if err != nil {
			return overview{}, err
		}
		t := turns[len(turns)-1]
		row, ok := known[t.Key]
		if !ok || !row.updated.Equal(t.UpdatedAt) { // it may be of an erased session of this name
			if row, err = c.overviewRow(ctx, t); err != nil {
				return overview{}, err
			}
		}
		row.Ago = ago(o.At, row.updated)
		o.add(row)
	}
	return o, nil
}

func (c *Console) overviewRow(ctx context.Context, t agent.Turn) (overviewRow, error) {
	v, err := c.viewOf(ctx, t)
	if err != nil {
		return overviewRow{}, err
	}
	row := overviewRow{Key: t.Key, Session: v.Session, Title: titleOf(t), State: v.State, StateName: v.StateName(),
		ModeName: v.ModeName, Usage: v.Usage, Cost: v.Cost, updated: v.Updated}
	if v.Fault != nil {
		row.Fault = v.Fault.Kind
	}
	return row, nil
}

func (o *overview) add(row overviewRow) {
	switch row.State {
	case agent.TurnAccepted, agent.TurnRunning:
		o.Running++
	case agent.TurnWaiting:
		o.Waiting++
	case agent.TurnFailed:
		o.Failed++
	case agent.TurnCompleted:
		o.Completed++
	}
	o.Usage = o.Usage.Add(row.Usage)
	o.Cost += row.Cost
	o.Rows = append(o.Rows, row)
}
