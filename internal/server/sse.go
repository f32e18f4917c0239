package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/jsonstr"
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

// frame is one event in the form in which it goes over the wire.
type frame struct {
	data []byte
	// ends tells that nothing follows, rests that a stream may rightly end here.
	ends, rests bool
}

type fed struct {
	frame frame
	err   error
}

// frames renders a turn's events.
func frames(events iter.Seq2[agent.Event, error], requestID string) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		for e, err := range events {
			var f frame
			if err == nil {
				f, err = turnFrame(e, requestID)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

func turnFrame(e agent.Event, requestID string) (frame, error) {
	if e.Type == agent.EventTextDelta {
		return frame{data: textFrame(e)}, nil
	}
	return eventFrame(e, requestID)
}

func eventFrame(e agent.Event, requestID string) (frame, error) {
	data := eventData{Event: e}
	if e.Type == agent.EventTurnFailed {
		p := problemOf(faultOf(e.Fault), requestID)
		data.Problem = &p
	}
	body, err := marshal(data)
	if err != nil {
		return frame{}, fmt.Errorf("render event %d: %w", e.Sequence, err)
	}
	return frame{data: fmt.Appendf(nil, "event: %s\nid: %d\ndata: %s\n\n", e.Type, e.Sequence, body),
		ends: e.Type.EndsTurn(), rests: e.Type.EndsDelivery()}, nil
}

// textFrame is the frame of a piece of text, of which there are as many as of all
// others together and more.
func textFrame(e agent.Event) []byte {
	const form = `event: text.delta id: data: {"type":"text.delta","sequence":,"sessionId":"","turnId":"","text":""}` + "    "
	b := make([]byte, 0, len(form)+2*20+len(e.SessionID)+len(e.TurnID)+len(e.Text)+16)
	b = append(b, "event: text.delta\nid: "...)
	b = strconv.AppendInt(b, e.Sequence, 10)
	b = append(b, "\ndata: {\"type\":\"text.delta\",\"sequence\":"...)
	b = strconv.AppendInt(b, e.Sequence, 10)
	b = append(b, `,"sessionId":`...)
	b = jsonstr.Append(b, string(e.SessionID))
	b = append(b, `,"turnId":`...)
	b = jsonstr.Append(b, string(e.TurnID))
	if e.Text != "" {
		b = append(b, `,"text":`...)
		b = jsonstr.Append(b, e.Text)
	}
	return append(b, "}\n\n"...)
}

// deliver writes a stream: the events, and a comment whenever it has been silent for
// a heartbeat. An eager one sends its headers at once; otherwise they wait for the
// first event, so that errNothingMore and a first error can still become a status.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, eager bool, follow func(context.Context) iter.Seq2[frame, error]) error {
	ctx, cancel := context.WithCancel(r.Context())
	events := feedFrom(ctx, follow)
	defer func() {
		cancel()
		for range events { // returns when the feeding goroutine has
		}
	}()

	out := &stream{w: w, rc: http.NewResponseController(w)}
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
func feedFrom(ctx context.Context, follow func(context.Context) iter.Seq2[frame, error]) <-chan fed {
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
	w     http.ResponseWriter
	rc    *http.ResponseController
	buf   bytes.Buffer
	begun bool // the headers are out
	any   bool // there was an event
	rests bool // the last one may be the end
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
		o.buf.Write(f.frame.data)
		o.any, o.rests = true, f.frame.rests
		if over = f.frame.ends; over || n == feed {
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
	case o.any && !o.rests:
		return o.fail(errCut)
	case !o.any && !o.begun:
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
