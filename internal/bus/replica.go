package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
)

// Follow returns a copy of the Log that another node has of a turn, for a reader who has
// seen the events up to after. It is kept up to date until the Log or the reader's ctx
// ends; a copy that is closed may have lost its owner, so the reader goes on in the
// journal. All readers of a turn share one copy, and one of them who knows that the owner
// has lost the turn may close it. False means that no node has answered in time, or has
// anything above after.
func (b *Bus) Follow(ctx context.Context, key agent.TurnKey, after int64) (*events.Log, bool) {
	r := b.join(ctx, key, after)
	if r == nil {
		return nil, false
	}
	select {
	case <-r.found:
		return r.current(), true
	case <-r.ended: // perhaps just after it was found
		log := r.current()
		return log, log != nil
	case <-ctx.Done():
		return nil, false
	}
}

// join counts a reader among those of the turn's replica, for as long as ctx lasts. It
// returns nil when there is nobody to ask.
func (b *Bus) join(ctx context.Context, key agent.TurnKey, after int64) *replica {
	if !b.Connected() || ctx.Err() != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	r := b.replicas[key]
	if r != nil && r.log != nil && r.log.Closed() {
		b.dismissLocked(r)
		r = nil
	}
	if r == nil {
		b.made++
		r = &replica{
			b: b, key: key, inbox: b.subject("to", b.node, strconv.Itoa(b.made)),
			in: make(chan *nats.Msg, maxUnread), left: make(chan struct{}),
			found: make(chan struct{}), ended: make(chan struct{}), readers: map[int]func() bool{},
		}
		b.replicas[key], b.inboxes[r.inbox] = r, r
		b.work.Go(func() { r.run(after) })
	}
	r.joined++
	reader := r.joined
	r.readers[reader] = context.AfterFunc(ctx, func() { r.leave(reader) })
	return r
}

// received hands a message to the replica that it is for.
func (b *Bus) received(m *nats.Msg) {
	b.mu.Lock()
	r := b.inboxes[m.Subject]
	b.mu.Unlock()
	if r == nil {
		return // its last reader has left
	}
	select {
	case r.in <- m:
	default: // it is noticed as a gap
	}
}

// maxUnread is how many messages may wait for a replica.
const maxUnread = 128

// replica keeps a copy of another node's Log, by a goroutine of its own.
type replica struct {
	b     *Bus
	key   agent.TurnKey
	inbox string // the subject to which the owner sends
	in    chan *nats.Msg
	left  chan struct{} // closed when nobody needs it any more
	found chan struct{} // closed when there is a copy
	ended chan struct{} // closed at the end

	// Guarded by Bus.mu.
	joined  int                 // readers, ever
	readers map[int]func() bool // those that are there; each stops waiting for its context
	log     *events.Log         // nil until an owner has answered

	// Used by the goroutine alone.
	owner  string // the node that has the Log
	known  int64  // the sequence behind the last event that there is, as far as we have heard
	asking bool   // an answer is awaited
	from   int64  // the event at which it begins
	asked  time.Time
	heard  time.Time // when the owner was last heard of
}

// current returns the copy, or nil.
func (r *replica) current() *events.Log {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.log
}

// leave counts a reader out.
func (r *replica) leave(reader int) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	delete(r.readers, reader)
	if len(r.readers) == 0 {
		r.b.dismissLocked(r)
	}
}

// dismissLocked lets nobody join a replica any more and has it end. b.mu is held.
func (b *Bus) dismissLocked(r *replica) {
	if b.inboxes[r.inbox] != r {
		return // it ends already
	}
	delete(b.replicas, r.key)
	delete(b.inboxes, r.inbox)
	close(r.left)
}

// run looks for the owner of the turn and keeps the copy up to date, until the owner
// closes its Log or is lost, or nobody reads the copy.
func (r *replica) run(after int64) {
	defer r.end()
	r.heard = time.Now()
	r.ask(r.b.subject("follow"), ask{header: headerOf(r.key), After: after})
	wake := time.NewTimer(r.b.AnswerTime)
	defer wake.Stop()
	for {
		select {
		case m := <-r.in:
			if !r.take(m) {
				return
			}
		case <-wake.C:
			if !r.mind() {
				return
			}
		case <-r.left:
			return
		case <-r.b.stopping:
			return
		}
		wake.Reset(time.Until(r.due()))
	}
}

// end closes the copy and lets go of its readers.
func (r *replica) end() {
	r.b.mu.Lock()
	r.b.dismissLocked(r)
	for _, stop := range r.readers {
		stop()
	}
	log := r.log
	r.b.mu.Unlock()
	if log != nil {
		log.Close()
	}
	close(r.ended)
}

// due is when the owner is to be asked again, at the latest.
func (r *replica) due() time.Time {
	if r.asking {
		return r.asked.Add(r.b.AnswerTime)
	}
	return r.asked.Add(r.b.Silence / 3)
}

// mind asks the owner again when it is time to: for an answer that has not come, or so
// that it goes on sending. False means that there is no owner.
func (r *replica) mind() bool {
	now := time.Now()
	switch {
	case r.owner == "":
		return now.Before(r.due())
	case now.After(r.heard.Add(r.b.Silence)):
		return false
	case !now.Before(r.due()):
		r.askOwner()
	}
	return true
}

func (r *replica) ask(subject string, a ask) {
	r.asking, r.asked = true, time.Now()
	r.b.send(subject, r.inbox, a)
}

// askOwner asks for what is missing, if anything is; the answer shows that the owner
// lives.
func (r *replica) askOwner() {
	log := r.current()
	r.from = log.Next()
	r.ask(r.b.subject("follow", r.owner), ask{header: headerOf(r.key), First: log.First(), From: r.from})
}

// statusNobody is how NATS says that nobody has subscribed to where a question was sent.
const statusNobody = "503"

// take takes in a message. False means that the copy has come to its end.
func (r *replica) take(m *nats.Msg) bool {
	if m.Header.Get("Status") == statusNobody {
		// A node that has answered before may be back in a moment.
		return r.owner != ""
	}
	p, err := decode[part](m.Data)
	if err == nil && p.key() != r.key {
		err = errStray
	}
	if err != nil {
		r.b.unread(err)
		return true
	}
	log := r.current()
	switch {
	case log == nil || p.First > log.First():
		log = r.follow(p)
	case p.First < log.First() || p.Node != r.owner:
		return true // an earlier owner, which does not know yet that it is none
	}
	if log.Closed() {
		return false // by a reader
	}
	r.heard = time.Now()
	r.known = max(r.known, p.end())
	before := log.Next()
	if p.From <= before {
		log.Append(p.above(before)...)
		if p.Closed {
			return false
		}
	}
	answered := p.Answer && p.From == r.from // not by an earlier answer, come late or twice
	if answered {
		r.asking = false
		if log.Next() == before {
			r.known = before // it has no more than that, whatever else was said
		}
	}
	if !r.asking && (log.Next() < r.known || p.Closed || answered && p.More) {
		r.askOwner()
	}
	return true
}

// follow turns to the Log that a part is of. It replaces the one of an earlier owner:
// readers of that one go to the journal and come back.
func (r *replica) follow(p part) *events.Log {
	log := events.NewLog(r.key, p.First)
	r.b.mu.Lock()
	old := r.log
	r.log = log
	r.b.mu.Unlock()
	r.owner, r.known, r.from, r.asking = p.Node, p.First, p.First, r.asking && old == nil
	if old == nil {
		close(r.found)
	} else {
		old.Close()
	}
	return log
}
