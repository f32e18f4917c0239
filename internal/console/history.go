package console

import (
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/store"
)

// history is what became of a session: its modes, and its turns.
type history struct {
	bar
	Began   string // the mode in which it began
	Changes []modeEntry
	// MoreChanges and MoreTurns tell that some are left out.
	MoreChanges, MoreTurns bool
	Turns                  []turnRow
	Usage                  agent.Usage
	Cost                   budget.Cost
	Earlier                int64
}

// modeEntry is one stretch of a session in a mode.
type modeEntry struct {
	From, To, Reason string
	At               time.Time
	By               string
	Turn             agent.TurnID
	Branch           bool
}

// turnRow is a turn in the timeline.
type turnRow struct {
	turnView
	Title string
}

// history shows a session's modes and turns, newest last.
func (c *Console) history(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	s, err := c.sessionOf(r, by)
	if err != nil {
		return err
	}
	h := history{Began: c.modeName(s.Mode)}
	if h.bar, err = c.barOf(r.Context(), by, s); err != nil {
		return err
	}
	changes, next, err := c.sessions.ModeHistory(r.Context(), by, s.ID, store.Page{Limit: store.MaxLimit})
	if err != nil {
		return err
	}
	h.MoreChanges = next != ""
	for i, m := range changes {
		if i == 0 {
			h.Began = c.modeName(m.Previous)
		}
		h.Changes = append(h.Changes, c.modeEntry(m))
	}
	turns, err := c.lastTurns(r.Context(), by, s, timelineTurns)
	if err != nil {
		return err
	}
	for _, t := range turns {
		v, err := c.viewOf(r.Context(), t)
		if err != nil {
			return err
		}
		h.Turns = append(h.Turns, turnRow{v, titleOf(t)})
		h.Usage = h.Usage.Add(v.Usage)
		h.Cost += v.Cost
	}
	h.Earlier = max(0, s.Turns-timelineTurns)
	return c.show(w, r, http.StatusOK, page{Title: "History of " + h.Title, Nav: "chat", Body: "history", Data: h})
}

// timelineTurns is how many turns a timeline shows.
const timelineTurns = 100

func (c *Console) modeEntry(m agent.ModeChange) modeEntry {
	e := modeEntry{From: c.modeName(m.Previous), To: c.modeName(m.Mode), Reason: m.Reason, At: m.At, Turn: m.Turn, Branch: m.Branch, By: person(m.User)}
	if m.Actor == agent.ActorModel {
		e.By = "the model"
		if m.Approval != "" {
			e.By = "the model, with the consent of " + person(m.User)
		}
	}
	return e
}
