package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// eventData is the data of one event: agent.Event, with its fault as the problem
// that a JSON answer would have been.
type eventData struct {
	agent.Event
	Problem *Problem `json:"problem,omitempty"`
}

// errCut is a stream that ended before it told how the delivery ended. The reader
// resumes; the turn is not affected.
var errCut = errors.New("the stream ended before the delivery did")

// errNothingMore is a stream without any event.
var errNothingMore = errors.New("no further events")

// feed is how many events may wait for one reader.
const feed = 16

type fed struct {
	event agent.Event
	err   error
}

// deliver writes a stream: the events, and a comment whenever it has been silent for
// a heartbeat. An eager one sends its headers at once; otherwise they wait for the
// first event, so that errNothingMore and a first error can still become a status.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, eager bool, follow func(context.Context) iter.Seq2[agent.Event, error]) error {
	ctx, cancel := context.WithCancel(r.Context())
	events := feedFrom(ctx, follow)
	defer func() {
		cancel()
		for range events { // returns when the feeding goroutine has
		}
	}()

	out := &stream{w: w, rc: http.NewResponseController(w), requestID: exchangeOf(r).id}
	if eager {
		if err := out.flush(); err != nil {
			return err
		}
	}
	heartbeat := time.NewTimer(s.heartbeat)
	defer heartbeat.Stop()
	for {
		select {
		case f, ok := <-events:
			if over, err := out.batch(f, ok, events); err != nil || over {
				return err
			}
		case <-heartbeat.C:
			if err := out.comment(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		heartbeat.Reset(s.heartbeat)
	}
}

// feedFrom runs events in a goroutine that ends when they do or when ctx does; the
// channel is closed then.
func feedFrom(ctx context.Context, follow func(context.Context) iter.Seq2[agent.Event, error]) <-chan fed {
	out := make(chan fed, feed)
	go func() {
		defer close(out)
		defer func() {
			if v := recover(); v != nil {
				select {
				case out <- fed{err: panicked(v)}:
				case <-ctx.Done():
				}
			}
		}()
		for e, err := range follow(ctx) {
			select {
			case out <- fed{e, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// stream is the writing half of a delivery.
type stream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	requestID string
	buf       bytes.Buffer
	begun     bool            // the headers are out
	last      agent.EventType // of the last event, empty before the first
}

// batch writes the event at hand and those that are ready behind it, in one flush.
func (o *stream) batch(f fed, ok bool, more <-chan fed) (over bool, err error) {
	for n := 1; ; n++ {
		if !ok {
			return true, o.finish()
		}
		if f.err != nil {
			return true, o.fail(f.err)
		}
		if err := o.event(f.event); err != nil {
			return true, err
		}
		if over = f.event.Type.EndsTurn(); over || n == feed {
			return over, o.flush()
		}
		select {
		case f, ok = <-more:
		default:
			return false, o.flush()
		}
	}
}

// finish ends a stream that has no more events: rightly so only when the last one
// said how the delivery ended.
func (o *stream) finish() error {
	switch {
	case o.last != "" && !o.last.EndsDelivery():
		return o.fail(errCut)
	case o.last == "" && !o.begun:
		return errNothingMore
	}
	return o.flush()
}

// fail sends what came before the error.
func (o *stream) fail(err error) error {
	if o.buf.Len() == 0 {
		return err
	}
	return errors.Join(err, o.flush())
}

// event puts one event into the buffer.
func (o *stream) event(e agent.Event) error {
	data := eventData{Event: e}
	if e.Type == agent.EventTurnFailed {
		p := problemOf(faultOf(e.Fault), o.requestID)
		data.Problem = &p
	}
	body, err := marshal(data)
	if err != nil {
		return fmt.Errorf("render event %d: %w", e.Sequence, err)
	}
	o.last = e.Type
	fmt.Fprintf(&o.buf, "event: %s\nid: %d\ndata: %s\n\n", e.Type, e.Sequence, body)
	return nil
}

// comment keeps the connection alive through proxies, and finds out whether the
// reader still is.
func (o *stream) comment() error {
	o.buf.WriteString(": still here\n\n")
	return o.flush()
}

// flush sends what is in the buffer, and before it the headers.
func (o *stream) flush() error {
	if !o.begun {
		o.begun = true
		h := o.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
		o.w.WriteHeader(http.StatusOK)
	}
	if _, err := o.w.Write(o.buf.Bytes()); err != nil {
		return fmt.Errorf("write to the stream's reader: %w", err)
	}
	o.buf.Reset()
	if err := o.rc.Flush(); err != nil {
		return fmt.Errorf("write to the stream's reader: %w", err)
	}
	return nil
}

// faultOf returns why a turn failed, an internal fault when nobody wrote it down.
func faultOf(f *agent.Fault) agent.Fault {
	if f == nil {
		return agent.FaultOf(nil)
	}
	return *f
}
