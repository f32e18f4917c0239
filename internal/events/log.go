package events

import (
	"context"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

// Log is the events of one delivery of a running turn. One runner appends, any
// number of followers read.
type Log struct {
	hub   *Hub
	key   agent.TurnKey
	first int64

	mu      sync.Mutex // guards what follows; never held together with the hub's
	entries []entry    // grows only
	closed  bool
	grown   chan struct{} // closed at the next change; nil when nobody waits for it
}

// entry is an event as the Log keeps it. Most are pieces of text, of which the rest is
// known: an open stream would else hold ten times what it has shown.
type entry struct {
	text  string
	event *agent.Event // nil for a piece of text
}

// First returns the sequence of the Log's first event. What comes before it is in
// the journal.
func (l *Log) First() int64 { return l.first }

// Next returns the sequence that the Log's next event has.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + int64(len(l.entries))
}

// Append adds events, which are numbered already and follow on from the last one.
// It never waits for a reader. After Close it does nothing.
func (l *Log) Append(e ...agent.Event) {
	if !l.add(e) {
		l.Close()
	}
}

// add reports whether the events fit.
func (l *Log) add(events []agent.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	defer l.wake()
	l.entries = slices.Grow(l.entries, len(events))
	for _, e := range events {
		next := l.first + int64(len(l.entries))
		if e.Sequence > next {
			return false
		}
		if e.Sequence == next {
			l.entries = append(l.entries, l.kept(e))
		}
	}
	return true
}

func (l *Log) kept(e agent.Event) entry {
	if e.Type == agent.EventTextDelta && e.SessionID == l.key.Session && e.TurnID == l.key.Turn {
		return entry{text: e.Text}
	}
	whole := e
	return entry{event: &whole}
}

// event returns the event at a position. l.mu is held.
func (l *Log) event(position int64) agent.Event {
	e := l.entries[position]
	if e.event != nil {
		return *e.event
	}
	return agent.Event{Type: agent.EventTextDelta, Sequence: l.first + position,
		SessionID: l.key.Session, TurnID: l.key.Turn, Text: e.text}
}

// Close ends the delivery: followers read what is there and stop, and the hub
// forgets the Log soon after. Before it, the journal must hold all that was appended.
func (l *Log) Close() {
	l.mu.Lock()
	closed, empty := l.closed, len(l.entries) == 0
	l.closed = true
	l.wake()
	l.mu.Unlock()
	switch {
	case closed:
	case empty:
		l.hub.drop(l)
	default:
		l.hub.retire(l)
	}
}

// wake tells the followers to look again. l.mu is held.
func (l *Log) wake() {
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// From returns the events with a sequence above after, those that are there and
// those to come. It waits for them, also when after lies beyond the end, and stops
// without an error when the Log is closed: whoever has not seen the end of the
// delivery then reads the journal. When ctx ends, its error is the last value.
func (l *Log) From(ctx context.Context, after int64) iter.Seq2[agent.Event, error] {
	return All(ctx, l.Reader(after))
}

// Reader returns a reader of the events with a sequence above after.
func (l *Log) Reader(after int64) *LogReader {
	r := &LogReader{log: l}
	if after >= l.first { // asked this way round, no after can overflow
		r.position = after - l.first + 1
	}
	return r
}

// LogReader reads a Log from a position on. It ends, with io.EOF, when the Log is
// closed and read.
type LogReader struct {
	log      *Log
	position int64
	ready    []agent.Event
	batch    *[maxReady]agent.Event // what ready is part of, when it is large
}

// maxReady is how many events a reader takes out of the Log at once, fewReady for how
// many it keeps room while it waits.
const (
	maxReady = 64
	fewReady = 4
)

var batches = sync.Pool{New: func() any { return new([maxReady]agent.Event) }}

// makeRoom makes room for n events in ready, which is empty.
func (r *LogReader) makeRoom(n int) {
	switch {
	case n <= cap(r.ready):
	case n <= fewReady:
		r.ready = make([]agent.Event, 0, fewReady)
	default:
		r.batch = batches.Get().(*[maxReady]agent.Event)
		r.ready = r.batch[:0]
	}
}

// Next implements Reader.
func (r *LogReader) Next(context.Context) ([]agent.Event, <-chan struct{}, error) {
	clear(r.ready)
	r.ready = r.ready[:0]
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	end := int64(len(l.entries))
	if r.position < end {
		r.makeRoom(int(min(end-r.position, maxReady)))
		for ; r.position < end && len(r.ready) < maxReady; r.position++ {
			r.ready = append(r.ready, l.event(r.position))
		}
		return r.ready, nil, nil
	}
	if r.batch != nil {
		// It may wait long, and has no use for a large buffer meanwhile.
		batches.Put(r.batch)
		r.batch, r.ready = nil, nil
	}
	if l.closed {
		return nil, nil, io.EOF
	}
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return nil, l.grown, nil
}
