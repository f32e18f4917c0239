package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/events"
)

// errCut is a stream that ended before it told how the delivery ended. The reader
// resumes; the turn is not affected.
var errCut = errors.New("the stream ended before the delivery did")

// errNothingMore is a stream without any event.
var errNothingMore = errors.New("no further events")

// delivery is a stream that is being written: the events, and a comment whenever it has
// been silent for a heartbeat. The headers wait until there is an event or until it is
// certain that one has to be waited for, so that errNothingMore and a first error can still
// become a status.
//
// An open stream waits here nearly all of its life, ten thousand of them at a time. So it
// has one goroutine, which holds no buffer while it waits, and soon not even a connection
// of net/http's.
type delivery[E any] struct {
	s      *Server
	r      *http.Request
	ctx    context.Context // ends with the reader; it does not end with the handler
	gone   context.CancelCauseFunc
	x      *exchange
	out    *stream
	from   events.Reader[E]
	frame  framer[E]
	opened time.Time
	// The timer runs on while events come, many times a second, and is set anew when it
	// finds that they have.
	timer   *time.Timer
	silence time.Duration // until the next heartbeat
	heard   time.Time     // when there was something last
	stays   bool          // it is not to be parked, or is already
	closing <-chan struct{}
	last    bool // what is not there now will not be waited for
	closed  func()
}

// deliver writes a stream until its end, or until it is parked.
func deliver[E any](s *Server, w http.ResponseWriter, r *http.Request, from events.Reader[E], frame framer[E]) error {
	closed, err := s.quotas.stream(r)
	if err != nil {
		return err
	}
	s.noted.StreamOpened()
	now := time.Now()
	d := &delivery[E]{s: s, r: r, x: exchangeOf(r), from: from, frame: frame, opened: now, heard: now, silence: s.nextHeartbeat(), closed: closed}
	d.out = &stream{w: w, rc: http.NewResponseController(w)}
	d.ctx, d.gone = context.WithCancelCause(context.WithoutCancel(r.Context()))
	unhook := context.AfterFunc(r.Context(), func() { d.gone(context.Cause(r.Context())) })
	defer unhook()
	d.timer = time.NewTimer(min(s.parkAfter, d.silence))
	parked := false
	defer func() { // also when something panics
		if !parked {
			d.end()
			d.gone(nil)
		}
	}()
	if err = d.follow(); !errors.Is(err, errLong) {
		return err
	}
	d.stays = true
	if parked = s.park(d.ctx, func() { d.gone(context.Canceled) }, w, r, d.goOn); parked {
		return nil
	}
	return d.follow()
}

// goOn writes the rest of a stream that is parked, or what is there of it when closing is
// closed.
func (d *delivery[E]) goOn(r *http.Request, closing <-chan struct{}) error {
	defer d.end()
	d.r, d.closing = r, closing
	return d.follow()
}

func (d *delivery[E]) end() {
	d.from.Close()
	d.timer.Stop()
	d.s.noted.StreamClosed()
	d.closed()
}

// follow writes events until there are no more, or errLong.
func (d *delivery[E]) follow() error {
	for {
		ready, again, err := d.from.Next(d.ctx)
		switch {
		case errors.Is(err, io.EOF):
			return d.out.finish()
		case err != nil:
			return err
		case len(ready) > 0:
			d.heard = time.Now()
			if err := d.s.still(d.x, d.r, d.heard, d.s.heartbeat/2); err != nil {
				return err
			}
			if err := write(d.out, ready, d.frame); err != nil || d.out.last == ends {
				return err
			}
			continue
		case d.last:
			return errCut
		case !d.out.begun:
			if err := d.out.flush(nil); err != nil {
				return err
			}
		}
		select {
		case <-again:
		case now := <-d.timer.C:
			if err := d.onTimer(now); err != nil {
				return err
			}
		case <-d.closing:
			d.closing, d.last = nil, true
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		}
	}
}

// onTimer does what it is time for.
func (d *delivery[E]) onTimer(now time.Time) error {
	left := d.silence - now.Sub(d.heard)
	switch {
	case !d.stays && now.Sub(d.opened) >= d.s.parkAfter:
		d.timer.Reset(left)
		return errLong
	case left > 0:
		d.timer.Reset(left)
		return nil
	}
	if err := d.s.still(d.x, d.r, now, 0); err != nil {
		return err
	}
	// It keeps the connection alive through proxies, and finds out whether the reader
	// still is.
	if err := d.out.flush([]byte(": still here\n\n")); err != nil {
		return err
	}
	d.silence, d.heard = d.s.nextHeartbeat(), now
	d.timer.Reset(d.silence)
	return nil
}

// nextHeartbeat is how long a stream may now be silent. Chance spreads the heartbeats
// of streams that were all opened at once, as after a restart.
func (s *Server) nextHeartbeat() time.Duration {
	return s.heartbeat - rand.N(s.heartbeat/8+1)
}

// stream is the writing half of a delivery.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool   // the headers are out
	any   bool   // there was an event
	last  ending // of the last event
}

// buffers are lent to streams while they write.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxFlush is how much is rendered before it is sent: what a reader costs that takes
// nothing. A single event may be longer.
const maxFlush = 64 << 10

// write sends events, those that are ready together in one flush.
func write[E any](o *stream, ready []E, frame framer[E]) (err error) {
	lent := buffers.Get().(*[]byte)
	b := (*lent)[:0]
	defer func() {
		if cap(b) <= 2*maxFlush {
			*lent = b
			buffers.Put(lent)
		}
	}()
	for _, e := range ready {
		var fault error
		if b, o.last, fault = frame(b, e); fault != nil {
			// What came before it is whole.
			return errors.Join(fault, o.flush(b))
		}
		o.any = true
		if o.last == ends {
			break
		}
		if len(b) >= maxFlush {
			if err := o.flush(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if o.last == ends {
		// The handler returns now, and net/http sends this with the end of the answer.
		return o.put(b)
	}
	return o.flush(b)
}

// finish ends a stream that has no more events: rightly so only when the last one
// said how the delivery ended.
func (o *stream) finish() error {
	switch {
	case o.any && o.last == goesOn:
		return errCut
	case !o.any && !o.begun:
		return errNothingMore
	}
	return nil
}

// flush sends b, and before it the headers.
func (o *stream) flush(b []byte) error {
	if err := o.put(b); err != nil {
		return err
	}
	if err := o.rc.Flush(); err != nil {
		return fmt.Errorf("write to the stream's reader: %w", err)
	}
	return nil
}

// put writes b, and before it the headers, for whatever is sent next.
func (o *stream) put(b []byte) error {
	if !o.begun {
		o.begun = true
		h := o.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
		o.w.WriteHeader(http.StatusOK)
	}
	if _, err := o.w.Write(b); err != nil {
		return fmt.Errorf("write to the stream's reader: %w", err)
	}
	return nil
}
