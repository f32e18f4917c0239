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

// deliver writes a stream: the events, and a comment whenever it has been silent for
// a heartbeat. The headers wait until there is an event or until it is certain that
// one has to be waited for, so that errNothingMore and a first error can still become
// a status.
//
// An open stream waits here nearly all of its life, ten thousand of them at a time. So
// it has no goroutine but its connection's, which holds no buffer while it waits.
func deliver[E any](s *Server, w http.ResponseWriter, r *http.Request, from events.Reader[E], frame framer[E]) error {
	closed, err := s.quotas.stream(r)
	if err != nil {
		return err
	}
	defer closed()
	s.noted.StreamOpened()
	defer s.noted.StreamClosed()
	ctx, x := r.Context(), exchangeOf(r)
	out := &stream{w: w, rc: http.NewResponseController(w)}
	// The timer runs on while events come, many times a second, and is set anew when it
	// finds that they have.
	silence, heard := s.nextHeartbeat(), time.Now()
	heartbeat := time.NewTimer(silence)
	defer heartbeat.Stop()
	for {
		ready, again, err := from.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return out.finish()
		case err != nil:
			return err
		case len(ready) > 0:
			heard = time.Now()
			if err := s.still(x, r, heard, s.heartbeat/2); err != nil {
				return err
			}
			if err := write(out, ready, frame); err != nil || out.last == ends {
				return err
			}
			continue
		case !out.begun:
			if err := out.flush(nil); err != nil {
				return err
			}
		}
		select {
		case <-again:
		case now := <-heartbeat.C:
			if left := silence - now.Sub(heard); left > 0 {
				heartbeat.Reset(left)
				continue
			}
			if err := s.still(x, r, now, 0); err != nil {
				return err
			}
			// It keeps the connection alive through proxies, and finds out whether the
			// reader still is.
			if err := out.flush([]byte(": still here\n\n")); err != nil {
				return err
			}
			silence, heard = s.nextHeartbeat(), now
			heartbeat.Reset(silence)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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
