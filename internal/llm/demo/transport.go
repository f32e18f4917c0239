package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Transport returns an http.RoundTripper that answers with a model of the default
// configuration.
func Transport() http.RoundTripper { return New(Config{}).Transport() }

// Transport returns an http.RoundTripper that hands every request to the model,
// whatever host it names. The answer streams: its body is read while the model
// writes. The model stops when the request's context ends or the body is closed, and
// Close returns when it has stopped.
func (m *Model) Transport() http.RoundTripper { return transport{handler: m} }

type transport struct{ handler http.Handler }

// RoundTrip runs the handler until it has sent its headers; the rest comes through
// the body.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	ctx, cancel := context.WithCancel(req.Context())
	pr, pw := io.Pipe()
	w := &writer{header: http.Header{}, pipe: pw, started: make(chan struct{})}
	// A reader that waits for the next piece learns at once that the call is over.
	stop := context.AfterFunc(ctx, func() { pw.CloseWithError(context.Cause(ctx)) })

	done := make(chan struct{})
	in := req.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer close(done)
		err := serve(t.handler, w, in)
		if err == nil { // an answer that was given up must not look complete
			err = context.Cause(ctx)
		}
		w.finish(err)
		stop() // before cancel, which would call it
		cancel()
	}()
	select {
	case <-w.started:
	case <-ctx.Done():
	}
	// A handler that did not start is still reading the request's body, which
	// belongs to this call: it must be through with it before the call returns.
	if err := req.Context().Err(); err != nil {
		cancel()
		pr.Close()
		<-done
		return nil, fmt.Errorf("ask the demo model: %w", err)
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, ContentLength: -1, Request: req,
		Body: &body{PipeReader: pr, cancel: cancel, done: done},
	}, nil
}

// errBroken is what a reader gets when the model itself failed.
var errBroken = errors.New("the demo model failed")

// serve runs the handler. net/http keeps a server alive when a handler panics, and
// so does this: the script reads whatever a user writes.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errBroken, v)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// body is the reading end of an answer.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   <-chan struct{}
}

// Close stops the model and waits until it has stopped.
func (b *body) Close() error {
	err := b.PipeReader.Close()
	b.cancel()
	<-b.done
	return err
}

// writer is the writing end: an http.ResponseWriter into a pipe. One goroutine uses
// it; status and sent may be read once started is closed.
type writer struct {
	header  http.Header
	pipe    *io.PipeWriter
	once    sync.Once
	started chan struct{} // closed when the headers are final
	status  int
	sent    http.Header
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush has nothing to do: a write ends when it has been read.
func (w *writer) Flush() {}

// finish ends the answer, well or with err.
func (w *writer) finish(err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	w.pipe.CloseWithError(err)
}
