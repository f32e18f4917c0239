package events

import (
	"context"
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

	mu     sync.Mutex    // guards what follows; never held together with the hub's
	events []agent.Event // grows only, so that followers may read what they have seen of it
	closed bool
	grown  chan struct{} // closed at the next change; nil when nobody waits for it
}

// First returns the sequence of the Log's first event. What comes before it is in
// the journal.
func (l *Log) First() int64 { return l.first }

// Next returns the sequence that the Log's next event has.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + int64(len(l.events))
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
	l.events = slices.Grow(l.events, len(events))
	for _, e := range events {
		next := l.first + int64(len(l.events))
		if e.Sequence > next {
			return false
		}
		if e.Sequence == next {
			l.events = append(l.events, e)
		}
	}
	return true
}

// Close ends the delivery: followers read what is there and stop, and the hub
// forgets the Log soon after. Before it, the journal must hold all that was appended.
func (l *Log) Close() {
	l.mu.Lock()
	closed, empty := l.closed, len(l.events) == 0
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
	return func(yield func(agent.Event, error) bool) {
		next := int64(0)
		if after >= l.first { // asked this way round, no after can overflow
			next = after - l.first + 1
		}
		for {
			batch, grown := l.read(next)
			for _, e := range batch {
				if err := ctx.Err(); err != nil {
					yield(agent.Event{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			next += int64(len(batch))
			if len(batch) > 0 {
				continue
			}
			if grown == nil {
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

// read returns the events from a position on, or, when there are none yet, a
// channel that is closed when it is time to look again. Neither means the end.
func (l *Log) read(position int64) ([]agent.Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int64(len(l.events)); position < n {
		return l.events[position:n:n], nil
	}
	if l.closed {
		return nil, nil
	}
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return nil, l.grown
}
