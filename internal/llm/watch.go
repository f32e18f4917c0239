package llm

import (
	"context"
	"errors"
	"io"
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
	body    io.ReadCloser
	unhook  func() bool
	left    int64
	// finished says that all that matters of the body is read.
	finished bool
}

func newWatch(ctx context.Context, total, idle time.Duration, maxBytes int64) *watch {
	ctx, release := context.WithTimeoutCause(ctx, total, errTotal)
	ctx, cancel := context.WithCancelCause(ctx)
	// One byte more than allowed, to tell an answer that is as long from a longer one.
	w := &watch{ctx: ctx, cancel: cancel, release: release, idle: idle, left: maxBytes + 1}
	w.silence = time.AfterFunc(idle, func() { cancel(errIdle) })
	return w
}

// over takes the body of the answer over; from here on the silence that counts is
// the one within a Read.
func (w *watch) over(body io.ReadCloser) {
	w.silence.Stop()
	w.body = body
	w.unhook = context.AfterFunc(w.ctx, func() { _ = body.Close() })
}

// Read reads the body within the bounds.
func (w *watch) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	w.silence.Reset(w.idle)
	n, err := w.body.Read(p[:min(int64(len(p)), w.left)])
	w.silence.Stop()
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
