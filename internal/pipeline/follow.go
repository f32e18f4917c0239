package pipeline

import (
	"context"
	"fmt"
	"iter"

	"github.com/aptixhq/aptix/internal/agent"
)

// Follow yields the turn's events after sequence `after`, first from the journal and
// then live, without gap or repeat. It ends after the event that ends the turn, or
// after a turn.waiting that nothing follows yet; with ctx; or with an error when the
// server stops under the turn.
func (p *Pipeline) Follow(ctx context.Context, key agent.TurnKey, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		rests := false // as far as the turn's row says
		for {
			// The live log is looked up before the journal is read: what is in
			// neither has not happened yet.
			log, live := p.Hub.Follow(key)
			over := false // as far as the journal says
			if !live || after+1 < log.First() {
				steps, err := p.Store.Steps(ctx, key)
				if err != nil {
					yield(agent.Event{}, fmt.Errorf("read journal of turn %s: %w", key, err))
					return
				}
				for _, s := range steps {
					if s.Kind == agent.StepContinued {
						over = false // it shows nothing, and goes on from a turn.waiting
					}
					for _, e := range s.Events(key) {
						if live && e.Sequence >= log.First() {
							break
						}
						over = e.Type.EndsDelivery()
						if e.Sequence <= after {
							continue
						}
						if !yield(e, nil) {
							return
						}
						after = e.Sequence
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
				if !yield(e, nil) {
					return
				}
				after = e.Sequence
				if e.Type.EndsDelivery() {
					return
				}
			}
		}
	}
}

// rest reports whether the turn is at rest; its journal then has the event that says
// so. A turn that runs without a live log is about to leave and is waited for. One
// that does neither was broken off, which is an error.
func (p *Pipeline) rest(ctx context.Context, key agent.TurnKey) (bool, error) {
	r, t, err := p.find(ctx, key)
	switch {
	case err != nil:
		return false, err
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
