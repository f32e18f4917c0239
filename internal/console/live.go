package console

import (
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// liveSessions is how many sessions the overview looks at.
const liveSessions = 50

// overview is what the newest sessions are doing.
type overview struct {
	At                                  time.Time
	Running, Waiting, Failed, Completed int
	Usage                               agent.Usage
	Rows                                []overviewRow
	More                                bool
}

// overviewRow is the last turn of a session.
type overviewRow struct {
	turnView
	Title string
	Ago   string
}

// live shows the last turns of the newest sessions, and what they cost.
func (c *Console) live(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	sessions, next, err := c.sessions.List(r.Context(), by, store.Page{Limit: liveSessions})
	if err != nil {
		return err
	}
	o := overview{At: c.now(), More: next != ""}
	for _, s := range sessions {
		turns, err := c.lastTurns(r.Context(), by, s, 1)
		if agent.KindOf(err) == agent.KindNotFound || err == nil && len(turns) == 0 {
			continue // erased meanwhile, or without a turn
		}
		if err != nil {
			return err
		}
		t := turns[len(turns)-1]
		v, err := c.viewOf(r.Context(), t)
		if err != nil {
			return err
		}
		o.count(v)
		o.Rows = append(o.Rows, overviewRow{v, titleOf(t), ago(c.now(), t.UpdatedAt)})
	}
	if r.Header.Get("HX-Request") != "" {
		return fragment(w, "live", o)
	}
	return c.show(w, r, http.StatusOK, page{Title: "Live", Nav: "live", Body: "live-page", Data: o})
}

func (o *overview) count(v turnView) {
	switch v.State {
	case agent.TurnAccepted, agent.TurnRunning:
		o.Running++
	case agent.TurnWaiting:
		o.Waiting++
	case agent.TurnFailed:
		o.Failed++
	case agent.TurnCompleted:
		o.Completed++
	}
	o.Usage = o.Usage.Add(v.Usage)
}
