package events

import (
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Log is the events of one delivery of a running turn. One runner appends, any
// number of followers read.
type Log struct {
	hub   *Hub // nil when no hub knows it
	key   agent.TurnKey
	first int64

	mu      sync.Mutex // guards what follows; never held together with the hub's
	pieces  Pieces     // one for each event, empty where it is one of others
	others  []other    // the events that are no text, in order
	closed  bool
	waiting []*LogReader // those who have read everything and are to be told of more
	told    time.Time    // when they last were told of text
	later   *time.Timer  // tells them of gathered text; nil before it was first needed
	soon    bool         // later is running
}

// other is an event that is no piece of text. Most are text, of which the rest is known.
type other struct {
	position int
	event    *agent.Event
}

// NewLog returns a Log that no hub knows: a copy of one that another process has.
func NewLog(k agent.TurnKey, first int64) *Log { return &Log{key: k, first: first} }

// First returns the sequence of the Log's first event. What comes before it is in
// the journal.
func (l *Log) First() int64 { return l.first }

// Next returns the sequence that the Log's next event has.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next()
}

// Closed reports whether nothing comes any more.
func (l *Log) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// next is Next with l.mu held.
func (l *Log) next() int64 { return l.first + int64(l.pieces.Len()) }

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
	urgent := false
	for i := range events {
		e := &events[i]
		if e.Sequence > l.next() {
			return false // and Close wakes
		}
		if e.Sequence == l.next() {
			l.keep(e)
			urgent = urgent || e.Type != agent.EventTextDelta
		}
	}
	if urgent {
		l.wake()
	} else {
		l.wakeForText()
	}
	return true
}

// keep appends an event. l.mu is held.
func (l *Log) keep(e *agent.Event) {
	if e.Type == agent.EventTextDelta && e.SessionID == l.key.Session && e.TurnID == l.key.Turn {
		l.pieces.Add(e.Text)
		return
	}
	whole := *e
	l.others = append(l.others, other{l.pieces.Len(), &whole})
	l.pieces.Add("")
}

// appendFrom appends events from a position on until out, which has room, is full. l.mu is
// held.
func (l *Log) appendFrom(out []agent.Event, position int) []agent.Event {
	n, _ := slices.BinarySearchFunc(l.others, position, func(o other, p int) int { return cmp.Compare(o.position, p) })
	for ; position < l.pieces.Len() && len(out) < cap(out); position++ {
		if n < len(l.others) && l.others[n].position == position {
			out = append(out, *l.others[n].event)
			n++
			continue
		}
		out = append(out, agent.Event{Type: agent.EventTextDelta, Sequence: l.first + int64(position),
			SessionID: l.key.Session, TurnID: l.key.Turn, Text: l.pieces.At(position)})
	}
	return out
}

// Close ends the delivery: followers read what is there and stop, and the hub
// forgets the Log soon after. Before it, the journal must hold all that was appended.
func (l *Log) Close() {
	l.mu.Lock()
	closed, empty := l.closed, l.pieces.Len() == 0
	l.closed = true
	l.wake()
	l.mu.Unlock()
	if !closed && l.hub != nil {
		l.hub.retire(l, empty)
	}
}

// wakeForText tells the followers who wait of text that comes now: at once when they were
// last told some time ago, or else with what comes then, or when as much time has passed
// again. Text that comes at a steady pace is told of as it comes, with what came before it,
// and no timer has to run out. l.mu is held.
func (l *Log) wakeForText() {
	if len(l.waiting) == 0 {
		return
	}
	gather := time.Duration(0)
	if l.hub != nil { // else it comes from another process, which has gathered it
		gather = time.Duration(l.hub.gather.Load())
	}
	if gather == 0 {
		l.wake()
		return
	}
	now := time.Now()
	if now.Sub(l.told) >= gather {
		l.told = now
		l.wake()
		return
	}
	switch {
	case l.soon:
		return // since earlier text
	case l.later == nil:
		l.later = time.AfterFunc(gather, l.wakeLater)
	default:
		l.later.Reset(gather)
	}
	l.soon = true
}

// wakeLater tells the followers of the text that was gathered.
func (l *Log) wakeLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.soon {
		return // they were told meanwhile
	}
	l.told = time.Now()
	l.wake()
}

// wake tells the followers who wait to look again. l.mu is held.
func (l *Log) wake() {
	if l.soon {
		l.soon = false
		l.later.Stop()
	}
	for _, r := range l.waiting {
		r.waits = false
		select {
		case r.grown <- struct{}{}:
		default: // it was told before and has not looked yet
		}
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
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
	grown    chan struct{} // receives when there is more; one for all waits
	waits    bool          // is one of the log's waiting; guarded by the log's mutex
	batch    *batch        // nil while it waits
}

// batch is what readers read into.
type batch struct {
	events []agent.Event
	pool   *sync.Pool // that it comes from
}

// maxReady is how many events a reader takes out of the Log at once. Mostly there are a
// few, and of the last ones nobody says that they were looked at.
const (
	maxReady = 64
	fewReady = 4
)

// Batches, for few events and for many. A reader that waits has none: it may wait long.
var small, large sync.Pool

func batchFor(n int) *batch {
	pool, size := &small, fewReady
	if n > fewReady {
		pool, size = &large, maxReady
	}
	if b, ok := pool.Get().(*batch); ok {
		return b
	}
	return &batch{events: make([]agent.Event, 0, size), pool: pool}
}

// Next implements Reader.
func (r *LogReader) Next(context.Context) ([]agent.Event, <-chan struct{}, error) {
	r.release()
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch there := int64(l.pieces.Len()) - r.position; {
	case there > 0:
		r.batch = batchFor(int(min(there, maxReady)))
		r.batch.events = l.appendFrom(r.batch.events, int(r.position))
		r.position += int64(len(r.batch.events))
		return r.batch.events, nil, nil
	case l.closed:
		return nil, nil, io.EOF
	case r.grown == nil:
		r.grown = make(chan struct{}, 1)
	}
	if !r.waits {
		r.waits = true
		l.waiting = append(l.waiting, r)
	}
	return nil, r.grown, nil
}

// Close implements Reader.
func (r *LogReader) Close() { r.release() }

// release gives the batch back, of which nothing is looked at any more.
func (r *LogReader) release() {
	if r.batch == nil {
		return
	}
	clear(r.batch.events)
	r.batch.events = r.batch.events[:0]
	r.batch.pool.Put(r.batch)
	r.batch = nil
}
