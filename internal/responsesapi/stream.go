package responsesapi

import (
	"context"
	"fmt"
	"iter"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// projector turns a delivery's turn events into response events, one by one. It holds
// nothing but what the events before said, so the same journal gives the same stream.
type projector struct {
	v     delivery
	live  render.Live
	shown int // bytes of text
}

func (p *projector) begin() ([]render.Event, error) {
	r, err := p.v.begun()
	if err != nil {
		return nil, err
	}
	return p.live.Begin(r)
}

// step shows an event that does not end the delivery. Each model call has a message of
// its own; what server tools do stays on the server.
func (p *projector) step(e agent.Event) ([]render.Event, error) {
	switch e.Type {
	case agent.EventTextDelta:
		p.shown += len(e.Text)
		return p.live.Text(e.Text, func(index int) string { return fmt.Sprintf("msg_%s_%d", p.v.id.itemTag(), index) })
	case agent.EventModelRequest:
		return p.live.Close()
	}
	return nil, nil
}

// finish shows the end of the delivery, which p.v must have by now.
func (p *projector) finish() ([]render.Event, error) {
	r, err := p.v.ended()
	if err != nil {
		return nil, err
	}
	var out []render.Event
	for _, item := range p.v.calls() {
		more, err := p.live.Add(item)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	last, err := p.live.End(r)
	return append(out, last...), err
}

// Follow yields the events of a response whose sequence number is greater than after,
// first from the journal and then live. It ends after the event that says how the
// response ended, with ctx, or with an error.
func (d *Door) Follow(ctx context.Context, by agent.Caller, id string, after int) iter.Seq2[render.Event, error] {
	return func(yield func(render.Event, error) bool) {
		v, err := d.read(ctx, by, id)
		if err != nil {
			yield(render.Event{}, err)
			return
		}
		p := &projector{v: v}
		next := 0
		// show yields events; false means that nobody wants more.
		show := func(events []render.Event, err error) bool {
			if err != nil {
				yield(render.Event{}, err)
				return false
			}
			for _, e := range events {
				next++
				if next-1 > after && !yield(e, nil) {
					return false
				}
			}
			return true
		}
		if !show(p.begin()) {
			return
		}
		for e, err := range d.turns.Follow(ctx, v.key, v.steps[0].FirstEvent-1) {
			if err != nil {
				yield(render.Event{}, err)
				return
			}
			if !e.Type.EndsDelivery() {
				if !show(p.step(e)) {
					return
				}
				continue
			}
			// The journal has the end before anybody sees it.
			p.v, err = d.read(ctx, by, id)
			switch {
			case err != nil:
			case p.v.end() == nil:
				err = fmt.Errorf("response %s has ended and its journal does not say how", id)
			case p.shown != p.v.textBytes():
				// The turn was broken off and taken up again: some of what this reader
				// has seen did not happen. It is cut, and finds the truth when it resumes.
				err = fmt.Errorf("response %s was taken up again, and the stream does not fit its journal", id)
			}
			if err != nil {
				yield(render.Event{}, err)
				return
			}
			show(p.finish())
			return
		}
	}
}

// textBytes counts the text that the delivery has in the journal.
func (v delivery) textBytes() int {
	n := 0
	for _, s := range v.steps {
		for _, e := range s.Events(v.key) {
			n += len(e.Text)
		}
	}
	return n
}

// resource is the response as it stands: what its stream has said so far.
func (v delivery) resource() ([]byte, error) {
	p := &projector{v: v}
	if _, err := p.begin(); err != nil {
		return nil, err
	}
	end := v.end()
	if end == nil {
		r, err := v.begun()
		if err != nil {
			return nil, err
		}
		return r.InProgress()
	}
	for _, s := range v.steps {
		for _, e := range s.Events(v.key) {
			if e.Type.EndsDelivery() {
				continue
			}
			if _, err := p.step(e); err != nil {
				return nil, err
			}
		}
	}
	if _, err := p.finish(); err != nil {
		return nil, err
	}
	r, err := v.ended()
	if err != nil {
		return nil, err
	}
	r.Output = p.live.Output()
	return r.JSON()
}
