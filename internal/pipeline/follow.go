package pipeline

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
)

// Follow yields what Reader reads, and waits for it.
func (p *Pipeline) Follow(ctx context.Context, key agent.TurnKey, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		events.All(ctx, p.Reader(key, after))(yield) // a sequence may be ranged over again
	}
}

// Reader returns a reader of the turn's events after sequence `after`, first from the
// journal and then live, without gap or repeat. It ends after the event that ends the
// turn, or after a turn.waiting that nothing follows yet; or with an error when the
// server stops under the turn.
//
// Text is shown before it is journalled, so a process that dies in it takes the
// numbers of the text along, and they are given again. A reader that may have seen
// such text is sent back to the turn.resumed that voids it.
func (p *Pipeline) Reader(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return &follower{p: p, key: key, after: after}
}

// ReaderThrough is Reader for an edge that knows no decisions of users: the reader waits
// for them, as it does for the model, and passes by the turn.waiting at which they are
// asked for.
func (p *Pipeline) ReaderThrough(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return &follower{p: p, key: key, after: after, through: true}
}

// follower is one reader's place in a turn.
type follower struct {
	p     *Pipeline
	key   agent.TurnKey
	after int64
	// through tells that a turn which waits for its user is one that goes on.
	through bool
	told    int64             // the last turn.resumed that the reader got here
	live    *events.LogReader // nil while the journal is read
	log     *events.Log       // that live reads, or has read to its end
	moved   <-chan struct{}   // of a turn that runs on another node: closed when it moves
	rests   bool              // as far as the turn's row says
	ended   bool
}

// Next implements events.Reader.
func (f *follower) Next(ctx context.Context) ([]agent.Event, <-chan struct{}, error) {
	for !f.ended {
		if f.live != nil {
			ready, again, err := f.live.Next(ctx)
			if err == nil {
				f.show(ready)
				return ready, again, nil
			}
			f.live = nil // closed: the journal has the rest
		}
		ready, again, err := f.look(ctx)
		if err != nil || len(ready) > 0 || again != nil {
			return ready, again, err
		}
	}
	return nil, nil, io.EOF
}

// Close implements events.Reader.
func (f *follower) Close() {
	if f.live != nil {
		f.live.Close()
	}
	f.ended = true
}

// show remembers what the reader gets.
func (f *follower) show(ready []agent.Event) {
	for _, e := range ready {
		if f.after = e.Sequence; e.Type == agent.EventTurnResumed {
			f.told = f.after
		}
		f.ended = e.Type.EndsDelivery() && !(f.through && e.AsksUser)
	}
}

// look finds out where the turn is and what of it the journal has for the reader. It
// returns nothing at all when the live log has everything, or when it is worth looking
// again, or when the reader has seen the end.
func (f *follower) look(ctx context.Context) ([]agent.Event, <-chan struct{}, error) {
	// The live log is looked up before the journal is read: what is in neither has
	// not happened yet.
	log, live := f.follow(ctx)
	live = live && log != f.log
	// A log that begins with the turn is all that is needed. Before another one there
	// may be more than the reader has, also when it begins just where the reader stands:
	// what the reader has may be void.
	if live && log.First() == 1 {
		f.live, f.log, f.rests = log.Reader(f.after), log, false
		return nil, nil, nil
	}
	shown, err := f.p.journalled(ctx, f.key)
	if err != nil {
		return nil, nil, fmt.Errorf("read journal of turn %s: %w", f.key, err)
	}
	f.after = shown.standing(f.after, f.told)
	if live {
		ready := shown.between(f.after, log.First())
		f.show(ready)
		f.ended, f.rests = false, false // it goes on after a turn.waiting
		f.live, f.log = log.Reader(f.after), log
		return ready, nil, nil
	}
	ready := shown.between(f.after, shown.next())
	f.show(ready)
	f.ended = shown.over && !(f.through && shown.asks) || f.rests
	if f.ended || len(ready) > 0 {
		return ready, nil, nil
	}
	again, err := f.rest(ctx)
	return nil, again, err
}

// follow returns the live log of the turn, or a copy of the one that another node has.
func (f *follower) follow(ctx context.Context) (*events.Log, bool) {
	log, live := f.p.Hub.Follow(f.key)
	if live || f.moved == nil {
		return log, live
	}
	f.moved = f.p.moves.when(f.key) // before the journal is read
	if f.p.Bus == nil {
		return nil, false
	}
	if log, live = f.p.Bus.Follow(ctx, f.key, f.after); live && log != f.log {
		f.p.moves.follows(f.key, log)
	}
	return log, live
}

// rest finds out whether the turn is at rest; its journal then has the event that says
// so. A turn that runs without a live log is about to leave and is waited for, and so is
// one that waits for its session. One that does neither was broken off, which is an
// error.
func (f *follower) rest(ctx context.Context) (leaves <-chan struct{}, err error) {
	r, t, moved, err := f.p.find(ctx, f.key)
	switch {
	case err != nil:
		return nil, err
	case moved != nil && !f.p.isDraining():
		if f.p.node != nil && f.moved != moved {
			// Between the reading of the journal and the asking for this it may have moved.
			f.moved = moved
			return nil, nil
		}
		return moved, nil
	case r != nil:
		f.moved = nil
		if log, live := f.p.Hub.Follow(f.key); live && log != f.log {
			return nil, nil // it was taken up just now
		}
		return r.done, nil
	case !atRest(t.State):
		return nil, f.p.errNotHere()
	case f.through && t.State == agent.TurnWaiting:
		return f.decision(ctx)
	}
	f.rests = true
	return nil, nil
}

// decision returns what is closed when a turn that waits for its user moves. One that
// waits for nobody of the kind is at rest, or worth another look.
func (f *follower) decision(ctx context.Context) (<-chan struct{}, error) {
	unlock := f.p.sessionLocks.lock(f.key.Org, f.key.Session)
	defer unlock()
	steps, err := f.p.Store.Steps(ctx, f.key)
	switch last := len(steps) - 1; {
	case err != nil:
		return nil, fmt.Errorf("read journal of turn %s: %w", f.key, err)
	case !steps[last].AsksUser():
		f.rests = steps[last].HandsOver()
		return nil, nil
	case f.p.isDraining():
		return nil, f.p.errNotHere()
	}
	return f.p.moves.when(f.key), nil
}

// projection is the journal of a turn and what it has for its readers, who share it.
type projection struct {
	steps  []agent.Step
	events []agent.Event // dense, from sequence 1 on
	over   bool          // the last of them ends a delivery that nothing followed yet
	asks   bool          // and waits for the user
	// resumed are the sequences of the turn.resumed that came over a model call.
	resumed []int64
}

func project(key agent.TurnKey, steps []agent.Step) *projection {
	p := &projection{steps: steps}
	asked := false // a model call is open, of which text may have been shown
	for _, s := range steps {
		switch s.Kind {
		case agent.StepContinued:
			p.over = false // it shows nothing, and goes on from a turn.waiting
		case agent.StepResumed: // once, or once more
			if asked {
				p.resumed = append(p.resumed, s.FirstEvent)
			}
		}
		asked = s.Kind == agent.StepAsked || asked && s.Kind == agent.StepResumed
		for _, e := range s.Events(key) {
			p.events = append(p.events, e)
			p.over, p.asks = e.Type.EndsDelivery(), e.AsksUser
		}
	}
	return p
}

// next is the sequence behind the last event.
func (p *projection) next() int64 { return int64(len(p.events)) + 1 }

// between returns the events above after and below end.
func (p *projection) between(after, end int64) []agent.Event {
	end = min(end, p.next())
	if after+1 >= end {
		return nil
	}
	return p.events[after : end-1 : end-1]
}

// standing returns the sequence up to which what a reader has seen still stands: all
// of it, or what was before the first turn.resumed that came over a model call. One
// that the reader was told of sends nobody back twice.
func (p *projection) standing(after, told int64) int64 {
	for _, at := range p.resumed {
		if told < at && at <= after {
			return at - 1
		}
	}
	return after
}

// journalled reads the journal of a turn for a reader. Those who ask at the same time
// share one reading: a thousand of them come back at once when a proxy restarts.
func (p *Pipeline) journalled(ctx context.Context, key agent.TurnKey) (*projection, error) {
	ctx, cancel := p.patient(ctx)
	defer cancel()
	return p.reads.do(ctx, key, func() (*projection, error) {
		steps, err := p.Store.Steps(ctx, key)
		if err != nil {
			return nil, err
		}
		return project(key, steps), nil
	})
}
