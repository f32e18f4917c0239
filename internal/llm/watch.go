package llm

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"
)

// The reasons for which a watch breaks off an exchange.
var (
	errIdle    = errors.New("the provider fell silent")
	errTotal   = errors.New("the provider took too long")
	errTooLong = errors.New("the answer is too long")
)

// watch bounds one exchange: how long it takes, how long the provider may be silent,
// how many bytes it may send. It breaks an exchange off by ending its context and
// closing its body, so that even a body that knows no context lets go.
type watch struct {
	ctx     context.Context // bounds this one exchange and never leaves it
	cancel  context.CancelCauseFunc
	release context.CancelFunc
	silence *time.Timer
	idle    time.Duration
	// reading is when the Read began that is under way, in nanoseconds since began; none
	// when there is none. Reads come many times a second, and a timer that was set for
	// each of them would cost as much as they do: it runs on and looks here.
	reading atomic.Int64
	began   time.Time
	body    io.ReadCloser
	unhook  func() bool
	left    int64
	// finished says that all that matters of the body is read.
	finished bool
}

// What reading is outside of a Read, and when nothing is read any more.
const (
	notReading = -1
	closed     = -2
)

func newWatch(ctx context.Context, total, idle time.Duration, maxBytes int64) *watch {
	ctx, release := context.WithTimeoutCause(ctx, total, errTotal)
	ctx, cancel := context.WithCancelCause(ctx)
	// One byte more than allowed, to tell an answer that is as long from a longer one.
	w := &watch{ctx: ctx, cancel: cancel, release: release, idle: idle, began: time.Now(), left: maxBytes + 1}
	w.silence = time.AfterFunc(math.MaxInt64, w.listen)
	w.silence.Reset(idle) // now that listen can see it
	return w
}

// listen breaks the exchange off if the provider has been silent for long enough, or
// looks again when that may be so.
func (w *watch) listen() {
	switch since := w.reading.Load(); since {
	case closed:
	case notReading:
		w.silence.Reset(w.idle)
	default:
		if left := w.idle - (time.Since(w.began) - time.Duration(since)); left > 0 {
			w.silence.Reset(left)
			return
		}
		w.cancel(errIdle)
	}
}

// over takes the body of the answer over; from here on the silence that counts is
// the one within a Read.
func (w *watch) over(body io.ReadCloser) {
	w.reading.Store(notReading)
	w.silence.Reset(w.idle)
	w.body = body
	w.unhook = context.AfterFunc(w.ctx, func() { _ = body.Close() })
}

// Read reads the body within the bounds.
func (w *watch) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	w.reading.Store(int64(time.Since(w.began)))
	n, err := w.body.Read(p[:min(int64(len(p)), w.left)])
	w.reading.Store(notReading)
	if w.left -= int64(n); w.left == 0 {
		return n, errTooLong
	}
	if err != nil && w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

// drainFor is how long the end of an answer is waited for once all that matters of it
// is read. A connection can carry the next request only if its answer is read to the
// end, which a sane provider sends in the same breath.
const drainFor = 100 * time.Millisecond

// close ends the exchange and lets go of its connection.
func (w *watch) close() {
	if w.finished && w.body != nil && w.left > 0 {
		enough := time.AfterFunc(drainFor, func() { w.cancel(errIdle) })
		_, _ = io.CopyN(io.Discard, w, 4<<10)
		enough.Stop()
	}
	w.reading.Store(closed)
	w.silence.Stop()
	if w.unhook != nil {
		w.unhook()
	}
	w.cancel(nil)
	w.release()
	if w.body != nil {
		_ = w.body.Close()
	}
}
