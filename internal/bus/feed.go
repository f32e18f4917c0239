package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
)

// asked answers a node that wants a turn, if the turn is here.
func (b *Bus) asked(m *nats.Msg) {
	a, err := decode[ask](m.Data)
	if err == nil && !strings.HasPrefix(m.Reply, b.subject("to")+".") {
		err = errStray
	}
	if err != nil {
		b.unread(err)
		return
	}
	log, ok := b.Hub.Follow(a.key())
	switch {
	case a.First == 0 && (!ok || !b.hasMore(log, a.After)):
		return // another node has it, or the journal has everything
	case !ok || log.First() < a.First:
		b.send(m.Reply, "", part{header: a.header, Node: b.node, First: a.First, From: a.From, Answer: true, Closed: true})
		return
	}
	from := a.From
	if log.First() != a.First {
		from = log.First()
	}
	// Before the answer is read: what is appended behind it is sent by the feed.
	b.want(a.key(), log, m.Reply)
	b.send(m.Reply, "", b.read(a.key(), log, from))
}

// hasMore reports whether a Log has, or will have, an event above after that can be
// sent. A reader that has seen what there is would else come back at once, and again.
func (b *Bus) hasMore(log *events.Log, after int64) bool {
	closed := log.Closed()
	after = max(after, log.First()-1) // what comes before the Log is in the journal
	if after+1 >= log.Next() {
		return !closed
	}
	ready, _, err := log.Reader(after).Next(context.Background())
	return err == nil && size(ready[0]) <= b.largest()
}

// read returns what a Log has from a sequence on, as much as goes into a message.
func (b *Bus) read(key agent.TurnKey, log *events.Log, from int64) part {
	p := part{header: headerOf(key), Node: b.node, First: log.First(), From: from, Answer: true}
	closed, next := log.Closed(), log.Next()
	for reader := log.Reader(from - 1); p.end() < next; {
		ready, _, err := reader.Next(context.Background())
		if err != nil {
			break
		}
		if p.fill(ready, b.largest()); p.More || p.Closed {
			return p
		}
	}
	p.Closed = closed
	return p
}

// largest is how large an event may be to be sent.
func (b *Bus) largest() int {
	if most := int(b.nats.MaxPayload()); most > room {
		return min(maxEvent, most-room)
	}
	return maxEvent
}

// feed sends what is appended to the Log of a turn that runs here to the nodes that want
// it. It exists only while one does.
type feed struct {
	b      *Bus
	key    agent.TurnKey
	log    *events.Log
	reader *events.LogReader
	next   int64 // the sequence of the event that is sent next

	wanted map[string]time.Time // until when, by subject; guarded by Bus.mu
}

// want has a subject sent what is appended to a Log from now on.
func (b *Bus) want(key agent.TurnKey, log *events.Log, subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	f := b.feeds[key]
	if f == nil || f.log != log {
		next := log.Next()
		f = &feed{b: b, key: key, log: log, reader: log.Reader(next - 1), next: next, wanted: map[string]time.Time{}}
		b.feeds[key] = f
		b.work.Go(f.run)
	}
	f.wanted[subject] = time.Now().Add(b.Silence)
}

// run sends until the Log is closed, nobody wants it any more, or the bus is closed.
func (f *feed) run() {
	defer f.b.forget(f)
	look := time.NewTicker(f.b.Silence)
	defer look.Stop()
	for {
		ready, again, err := f.reader.Next(context.Background())
		if err != nil {
			f.close()
			return
		}
		if len(ready) > 0 {
			if !f.send(ready) {
				return
			}
			continue
		}
		select {
		case <-again:
		case <-look.C:
			if len(f.subjects()) == 0 {
				return
			}
		case <-f.b.stopping:
			// Nobody appends any more, but the last may not be sent yet.
			if ready, _, _ := f.reader.Next(context.Background()); f.send(ready) {
				f.close() // the readers go to the journal
			}
			return
		}
	}
}

// send sends events, in as many parts as they need. False means that this was the last:
// nobody wants it, or the next event is too large.
func (f *feed) send(ready []agent.Event) bool {
	for len(ready) > 0 {
		p := f.part()
		ready = p.fill(ready, f.b.largest())
		p.More = false // the rest comes by itself
		f.next = p.end()
		if !f.publish(p) || p.Closed {
			return false
		}
	}
	return true
}

// close says that nothing comes any more.
func (f *feed) close() {
	p := f.part()
	p.Closed = true
	f.publish(p)
}

func (f *feed) part() part {
	return part{header: headerOf(f.key), Node: f.b.node, First: f.log.First(), From: f.next}
}

// publish sends a part to all who want it, and reports whether somebody does.
func (f *feed) publish(p part) bool {
	subjects := f.subjects()
	for _, subject := range subjects {
		f.b.send(subject, "", p)
	}
	return len(subjects) > 0
}

// subjects returns those who still want the Log. When nobody does the feed leaves the
// bus in the same moment, so that the next who does begins another.
func (f *feed) subjects() (out []string) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	for subject, until := range f.wanted {
		if time.Now().Before(until) {
			out = append(out, subject)
		} else {
			delete(f.wanted, subject)
		}
	}
	if len(out) == 0 {
		f.b.forgetLocked(f)
	}
	return out
}

// forget takes a feed off the bus, unless the turn has another one by now.
func (b *Bus) forget(f *feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(f)
}

func (b *Bus) forgetLocked(f *feed) {
	if b.feeds[f.key] == f {
		delete(b.feeds, f.key)
	}
}
