package responsesapi

import (
	"context"
	"fmt"
	"io"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
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

// Reader returns a reader of the events of a response whose sequence number is greater
// than after, first from the journal and then live. It ends after the event that says
// how the response ended, or with an error.
func (d *Door) Reader(by agent.Caller, id string, after int) events.Reader[render.Event] {
	return &reader{d: d, by: by, id: id, after: after}
}

// reader is one reader's place in a response.
type reader struct {
	d     *Door
	by    agent.Caller
	id    string
	after int

	next  int // the sequence number of the next event
	p     *projector
	turn  events.Reader[agent.Event] // nil until the response has begun
	ended bool
	fault error // what comes after the events that are ready
}

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context) ([]render.Event, <-chan struct{}, error) {
	for {
		switch {
		case r.fault != nil:
			return nil, nil, r.fault
		case r.ended:
			return nil, nil, io.EOF
		}
		var ready []render.Event
		var again <-chan struct{}
		if r.turn == nil {
			ready, r.fault = r.begin(ctx)
		} else {
			ready, again, r.fault = r.goOn(ctx)
		}
		if len(ready) > 0 || again != nil {
			return ready, again, nil
		}
	}
}

// Close implements events.Reader.
func (r *reader) Close() {
	if r.turn != nil {
		r.turn.Close()
	}
	r.ended = true
}

// begin reads what response it is and shows its beginning.
func (r *reader) begin(ctx context.Context) ([]render.Event, error) {
	v, err := r.d.read(ctx, r.by, r.id)
	if err != nil {
		return nil, err
	}
	r.p = &projector{v: v}
	r.turn = r.d.turns.ReaderThrough(v.key, v.steps[0].FirstEvent-1)
	shown, err := r.p.begin()
	return r.unseen(shown), err
}

// goOn shows what the turn has to tell.
func (r *reader) goOn(ctx context.Context) (ready []render.Event, again <-chan struct{}, err error) {
	told, again, err := r.turn.Next(ctx)
	for _, e := range told {
		var shown []render.Event
		if r.ended = e.Type.EndsDelivery() && !e.AsksUser; r.ended {
			shown, err = r.finish(ctx)
		} else {
			shown, err = r.p.step(e)
		}
		ready = append(ready, r.unseen(shown)...)
		if err != nil || r.ended {
			break
		}
	}
	return ready, again, err
}

// finish shows the end of the response. The journal has it before anybody sees it.
func (r *reader) finish(ctx context.Context) ([]render.Event, error) {
	var err error
	r.p.v, err = r.d.read(ctx, r.by, r.id)
	switch {
	case err != nil:
		return nil, err
	case r.p.v.end() == nil:
		return nil, fmt.Errorf("response %s has ended and its journal does not say how", r.id)
	case r.p.shown != r.p.v.textBytes():
		// The turn was broken off and taken up again: some of what this reader
		// has seen did not happen. It is cut, and finds the truth when it resumes.
		return nil, fmt.Errorf("response %s was taken up again, and the stream does not fit its journal", r.id)
	}
	return r.p.finish()
}

// unseen numbers events and leaves out those that the reader has seen.
func (r *reader) unseen(shown []render.Event) []render.Event {
	seen := min(max(r.after+1-r.next, 0), len(shown))
	r.next += len(shown)
	return shown[seen:]
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
		r, err := v.inProgress()
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
