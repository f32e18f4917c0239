package console

import (
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// span is a stretch of a turn's time, as its journal has it.
type span struct {
	Name string
	// Kind is model, tool or wait; the style sheet has a colour for each.
	Kind  string
	Start time.Duration // since the turn was sent
	Took  time.Duration
	// X and Width are its place in a bar, in thousandths of the turn.
	X, Width int64
	Open     bool
}

// waterfall returns the stretches of a turn in the order in which they began.
func waterfall(t agent.Turn, steps []agent.Step, now time.Time) ([]span, time.Duration) {
	w := spans{began: t.CreatedAt, open: map[string]int{}}
	for _, s := range steps {
		w.step(s)
	}
	end := now
	if t.State.Terminal() {
		end = t.UpdatedAt
	}
	for i := range w.all {
		if w.all[i].Open {
			w.all[i].Took = max(0, end.Sub(t.CreatedAt)-w.all[i].Start)
		}
	}
	total := max(end.Sub(t.CreatedAt), time.Millisecond)
	for i := range w.all {
		w.all[i].place(total)
	}
	return w.all, total
}

// spans collects stretches.
type spans struct {
	began time.Time
	all   []span
	open  map[string]int // what has begun and not ended, by a name of its own
}

func (w *spans) step(s agent.Step) {
	switch s.Kind {
	case agent.StepQueued:
		w.start("queue", "Waits for the session", "wait", s.At)
	case agent.StepAccepted:
		w.end("queue", s.At)
	case agent.StepEntering:
		w.start("enter", "Enters the mode", "tool", s.At)
	case agent.StepEntered:
		w.end("enter", s.At)
	case agent.StepAsked:
		w.end("model", s.At) // one that was refused has no answer in the journal
		w.start("model", fmt.Sprintf("Model call %d", s.Asked.Call), "model", s.At)
	case agent.StepAnswered:
		w.end("model", s.At)
	case agent.StepToolStarted:
		w.start(string(s.ToolStarted.ID), s.ToolStarted.Name, "tool", s.At)
	case agent.StepToolFinished:
		w.end(string(s.ToolFinished.Result.CallID), s.At)
	case agent.StepWaiting:
		name := "Waits for the client"
		if s.AsksUser() {
			name = "Waits for the user"
		}
		w.start("wait", name, "wait", s.At)
	case agent.StepContinued, agent.StepDecided:
		w.end("wait", s.At)
	case agent.StepSettled:
		for id := range w.open {
			w.end(id, s.At)
		}
	}
}

func (w *spans) start(id, name, kind string, at time.Time) {
	w.open[id] = len(w.all)
	w.all = append(w.all, span{Name: name, Kind: kind, Start: max(0, at.Sub(w.began)), Open: true})
}

func (w *spans) end(id string, at time.Time) {
	i, ok := w.open[id]
	if !ok {
		return
	}
	delete(w.open, id)
	w.all[i].Took, w.all[i].Open = max(0, at.Sub(w.began)-w.all[i].Start), false
}

// place puts the span into a bar that is as long as the turn.
func (s *span) place(total time.Duration) {
	s.X = min(int64(1000*s.Start/total), 996)
	s.Width = min(max(int64(1000*s.Took/total), 4), 1000-s.X)
}
