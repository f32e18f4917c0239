package pipeline

import (
	"context"
	"fmt"
	"iter"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
)

// Follow yields the turn's events after sequence `after`, first from the journal and
// then live, without gap or repeat. It ends after the event that ends the turn, or
// after a turn.waiting that nothing follows yet; with ctx; or with an error when the
// server stops under the turn.
//
// Text is shown before it is journalled, so a process that dies in it takes the
// numbers of the text along, and they are given again. A reader that may have seen
// such text is sent back to the turn.resumed that voids it.
func (p *Pipeline) Follow(ctx context.Context, key agent.TurnKey, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		rests := false   // as far as the turn's row says
		told := int64(0) // the last turn.resumed that the reader got here
		show := func(e agent.Event) bool {
			if after = e.Sequence; e.Type == agent.EventTurnResumed {
				told = after
			}
			return yield(e, nil)
		}
		var read *events.Log // to its end
		for {
			// The live log is looked up before the journal is read: what is in
			// neither has not happened yet.
			log, live := p.Hub.Follow(key)
			live = live && log != read
			over := false // as far as the journal says
			// A log that begins with the turn is all that is needed. Before another one
			// there may be more than the reader has, also when it begins just where the
			// reader stands: what the reader has may be void.
			if !live || log.First() > 1 {
				steps, err := p.Store.Steps(ctx, key)
				if err != nil {
					yield(agent.Event{}, fmt.Errorf("read journal of turn %s: %w", key, err))
					return
				}
				after = standing(steps, after, told)
				for _, s := range steps {
					if s.Kind == agent.StepContinued {
						over = false // it shows nothing, and goes on from a turn.waiting
					}
					for _, e := range s.Events(key) {
						if live && e.Sequence >= log.First() {
							break
						}
						over = e.Type.EndsDelivery()
						if e.Sequence > after && !show(e) {
							return
						}
					}
				}
			}
			if !live {
				if over || rests {
					return
				}
				var err error
				if rests, err = p.rest(ctx, key); err != nil {
					yield(agent.Event{}, err)
					return
				}
				continue
			}
			rests = false
			for e, err := range log.From(ctx, after) {
				if err != nil {
					yield(agent.Event{}, err)
					return
				}
				if !show(e) || e.Type.EndsDelivery() {
					return
				}
			}
			read = log
		}
	}
}

// standing returns the sequence up to which what a reader has seen still stands: all
// of it, or what was before the first turn.resumed that came over a model call. One
// that the reader was told of sends nobody back twice.
func standing(steps []agent.Step, after, told int64) int64 {
	for i, s := range steps {
		if s.Kind == agent.StepResumed && i > 0 && steps[i-1].Kind == agent.StepAsked && told < s.FirstEvent && s.FirstEvent <= after {
			return s.FirstEvent - 1
		}
	}
	return after
}

// rest reports whether the turn is at rest; its journal then has the event that says
// so. A turn that runs without a live log is about to leave and is waited for. One
// that does neither was broken off, which is an error.
func (p *Pipeline) rest(ctx context.Context, key agent.TurnKey) (bool, error) {
	r, t, moved, err := p.find(ctx, key)
	switch {
	case err != nil:
		return false, err
	case moved != nil:
		return false, p.queued(ctx, moved)
	case r != nil:
		select {
		case <-r.done:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	case !atRest(t.State):
		return false, p.errNotHere()
	}
	return true, nil
}
