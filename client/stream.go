package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Stream runs a user turn and yields its events as they happen, up to and with the one
// that ends the delivery. A failed turn is an event, not an error.
func (c *Client) Stream(ctx context.Context, u UserTurn) iter.Seq2[Event, error] {
	u = u.named()
	body := struct {
		UserTurn
		Stream bool `json:"stream"`
	}{u, true}
	return c.follow(ctx, follower{session: u.SessionID, turn: u.TurnID, post: body})
}

// StreamContinue hands tool results back and yields the events that follow. When the
// turn was not started with Stream, it yields its last event only.
func (c *Client) StreamContinue(ctx context.Context, t ToolContinuation) iter.Seq2[Event, error] {
	return c.follow(ctx, follower{session: t.SessionID, turn: t.TurnID, post: t})
}

// Events yields the events of a turn that come after the given sequence; 0 means all of
// them. It ends with the turn, or when the server has no more to say about a turn that
// waits.
func (c *Client) Events(ctx context.Context, sessionID, turnID string, after int64) iter.Seq2[Event, error] {
	return c.follow(ctx, follower{session: sessionID, turn: turnID, last: after})
}

// follower is a stream in progress.
type follower struct {
	session, turn string
	// post is the call that starts the delivery; nil when only reading. It is repeated
	// until the first event came through: the server knows it again by its ids.
	post any
	// last is the sequence of the last event delivered, 0 when there was none.
	last int64
	// lastType is that event's type.
	lastType EventType
	// resumed is the sequence of the last turn.resumed delivered.
	resumed int64
}

// errStop tells that the stream is finished: it had its last event, or its reader left.
var errStop = errors.New("stop")

func (c *Client) follow(ctx context.Context, f follower) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := f // a sequence may be ranged over again
		for n, connected := 1, false; ; n++ {
			before := f.last
			err := c.connection(ctx, &f, yield)
			switch {
			case errors.Is(err, errStop):
				return
			case ctx.Err() != nil:
				yield(Event{}, context.Cause(ctx))
				return
			case !lost(err), errors.Is(err, ErrUnreachable) && !connected:
				yield(Event{}, err)
				return
			}
			connected = true
			if f.last > before {
				n = 1
			}
			if n >= c.cfg.Attempts {
				yield(Event{}, fmt.Errorf("turn %s: %w", f.turn, err))
				return
			}
			if err := pause(ctx, max(c.cfg.Backoff(n), retryAfter(err))); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// connection opens one connection and delivers what comes over it. It returns errStop,
// or why the connection ended early.
func (c *Client) connection(ctx context.Context, f *follower, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.cfg.IdleTimeout, func() {
		cancel(fmt.Errorf("nothing came for %s", c.cfg.IdleTimeout))
	})
	defer idle.Stop()

	r := request{method: http.MethodGet, stream: true, lastEvent: f.last,
		path: at("v1", "sessions", f.session, "turns", f.turn, "events")}
	starting := f.post != nil && f.last == 0
	switch {
	case starting:
		r.method, r.path, r.body = http.MethodPost, executePath(), f.post
	case f.last > 0:
		r.query = url.Values{"after": {strconv.FormatInt(f.last, 10)}}
	}
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()

	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode == http.StatusNoContent && f.post == nil:
		return errStop // nothing further to tell
	case kind == "text/event-stream":
	case starting && kind == "application/json":
		// A turn that was not started as a stream answers its continuations in one piece.
		return c.deliverAnswer(res, yield)
	default:
		return fmt.Errorf("%s answered %q instead of a stream", c.base, kind)
	}

	events := newSSEReader(&restless{r: res.Body, idle: idle, limit: c.cfg.IdleTimeout}, c.cfg.MaxBytes)
	for {
		m, err := events.next()
		if err != nil {
			return f.ended(ctx, err)
		}
		var e Event
		if err := json.Unmarshal(m.data, &e); err != nil {
			return fmt.Errorf("an event of turn %s is not valid JSON: %w", f.turn, err)
		}
		if e.Type == "" {
			e.Type = EventType(m.event)
		}
		if e.Sequence == 0 {
			e.Sequence, _ = strconv.ParseInt(m.id, 10, 64)
		}
		switch {
		case e.Type == EventTurnResumed && e.Sequence > f.resumed:
			// Text that was shown and then lost with its process: its sequence numbers
			// are given again from here on.
			if f.last = min(f.last, e.Sequence-1); f.last != e.Sequence-1 {
				return fmt.Errorf("%w: event %d came after event %d", ErrConnectionLost, e.Sequence, f.last)
			}
			f.resumed = e.Sequence
		case f.last > 0 && e.Sequence <= f.last:
			continue // seen before
		case f.last > 0 && e.Sequence != f.last+1:
			return fmt.Errorf("%w: event %d came after event %d", ErrConnectionLost, e.Sequence, f.last)
		}
		f.last, f.lastType = e.Sequence, e.Type
		if !yield(e, nil) || e.Type.EndsTurn() || f.post != nil && e.Type.EndsDelivery() {
			return errStop
		}
	}
}

// ended says what the end of a connection means. err is why no further event could be
// read.
func (f *follower) ended(ctx context.Context, err error) error {
	if errors.Is(err, errTooLong) {
		return err
	}
	if errors.Is(err, io.EOF) && f.post == nil && f.lastType == EventTurnWaiting {
		return errStop // in order: the turn waits, and the client has the next word
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrConnectionLost, err)
}

// deliverAnswer yields the answer of a call that was not answered by a stream.
func (c *Client) deliverAnswer(res *http.Response, yield func(Event, error) bool) error {
	var a Answer
	if err := c.decode(res, &a); err != nil {
		return err
	}
	e := Event{Type: EventTurnCompleted, SessionID: a.SessionID, TurnID: a.TurnID, Response: &a}
	if a.Kind == AnswerClientToolContinuation {
		e.Type = EventTurnWaiting
	}
	yield(e, nil)
	return errStop
}

// restless restarts the idle timer with every read; while nobody reads, it rests.
type restless struct {
	r     io.Reader
	idle  *time.Timer
	limit time.Duration
}

func (r *restless) Read(p []byte) (int, error) {
	r.idle.Reset(r.limit)
	defer r.idle.Stop()
	return r.r.Read(p)
}
