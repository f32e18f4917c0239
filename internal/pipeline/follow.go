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
		for {
			// The live log is looked up before the journal is read: what is in
			// neither has not happened yet.
			log, live := p.Hub.Follow(key)
			var ended bool
			if !live || after+1 < log.First() {
				steps, err := p.Store.Steps(ctx, key)
				if err != nil {
					yield(agent.Event{}, fmt.Errorf("read journal of turn %s: %w", key, err))
					return
				}
				for _, s := range steps {
					for _, e := range s.Events(key) {
						if live && e.Sequence >= log.First() {
							break
						}
						ended = e.Type.EndsDelivery()
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
				if ended {
					return
				}
				if p.runningTurn(key) == nil {
					if _, nowLive := p.Hub.Follow(key); !nowLive && !p.atRest(ctx, key) {
						yield(agent.Event{}, agent.Errorf(agent.KindDraining, "The server stopped under the turn; it goes on after the restart. Follow it again from sequence %d.", after))
						return
					}
				}
				continue
			}
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

// atRest reports whether the turn ended or waits; its journal then has the event
// that says so.
func (p *Pipeline) atRest(ctx context.Context, key agent.TurnKey) bool {
	t, err := p.Store.Turn(ctx, key)
	return err == nil && (t.State.Terminal() || t.State == agent.TurnWaiting)
}
