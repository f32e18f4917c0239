package llm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// exchange is one request whose answer has begun with a status of 2xx: from here on
// the answer may have been generated, and nobody may ask for it again.
type exchange struct {
	c      *Client
	ctx    context.Context // the caller's, to tell his wish from our bounds
	w      *watch
	resp   *http.Response
	stream bool
}

// errUnsent marks a fault that came before there was a connection, so that the
// provider cannot have seen the request.
var errUnsent = errors.New("nothing was sent")

// open posts the body and waits for the status line. An error is one of three: the
// end of ctx, a *StatusError, which is the provider's own no, or a broken connection,
// which is errUnsent if the provider cannot know of the request.
func (c *Client) open(ctx context.Context, body []byte, stream bool, within time.Duration) (*exchange, error) {
	w := newWatch(ctx, within, c.idle, c.maxBytes)
	if !stream {
		// One document may be silent until it is whole.
		w.silence.Stop()
	}
	resp, err := c.post(w.ctx, body, stream)
	if err != nil {
		err = c.broken(ctx, w, unreachable, err)
		w.close()
		return nil, err
	}
	w.over(resp.Body)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err := c.refused(resp, w)
		if ctx.Err() != nil {
			err = c.broken(ctx, w, cut, err)
		}
		w.finished = true
		w.close()
		return nil, err
	}
	return &exchange{c: c, ctx: ctx, w: w, resp: resp, stream: stream}, nil
}

func (x *exchange) close() { x.w.close() }

func (c *Client) post(ctx context.Context, body []byte, stream bool) (*http.Response, error) {
	dialled, connected := false, false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { dialled = true },
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.endpoint, http.NoBody)
	if err != nil {
		return nil, err
	}
	sent := &payload{bytes: body}
	// The answer holds on to its request for as long as it is read.
	defer sent.release()
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.Body, req.GetBody = sent.reader(), func() (io.ReadCloser, error) { return sent.reader(), nil }
	}
	req.Header = c.header.Clone()
	if !c.key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	req.Header.Set("Accept", typeJSON)
	if stream {
		req.Header.Set("Accept", typeStream)
	}
	resp, err := c.http.Do(req)
	// The URL may hold what no log should: keep what happened, not where.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	// A transport that tells nothing of its connections gives no proof. Neither does a
	// connection that broke before the request was whole, though it often was not seen.
	wrongPeer := (*tls.CertificateVerificationError)(nil)
	if err != nil && dialled && !connected && ctx.Err() == nil && !errors.As(err, &wrongPeer) {
		err = fmt.Errorf("%w: %w", errUnsent, err)
	}
	return resp, err
}

// payload is a request body that is let go when it has been sent: an answer may take
// minutes, and with a transcript in it the body is the largest part of a turn.
type payload struct{ bytes []byte }

// reader returns a reader of the whole body. A transport asks for one before the answer
// begins only.
func (p *payload) reader() io.ReadCloser { return &payloadReader{left: p.bytes} }

func (p *payload) release() { p.bytes = nil }

// payloadReader lets go of the bytes when it is closed, which a transport does behind
// the last one, or in the middle when it gives up.
type payloadReader struct {
	mu   sync.Mutex // guards left
	left []byte
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	return n, nil
}

func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = nil
	return nil
}

// read yields the answer, read as what it calls itself. The last value is a Response
// or an error.
func (x *exchange) read(yield func(Event, error) bool) {
	switch mediaType(x.resp) {
	case typeStream:
		x.readStream(yield)
	case typeJSON:
		x.readDocument(yield)
	default:
		yield(Event{}, agent.Errorf(agent.KindProviderFailed,
			"The provider answered with something that is neither JSON nor an event stream; check the base URL."))
	}
}

func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

func (x *exchange) readDocument(yield func(Event, error) bool) {
	data, err := io.ReadAll(x.w)
	if err != nil {
		yield(Event{}, x.c.broken(x.ctx, x.w, cut, err))
		return
	}
	x.w.finished = true
	ev, err := x.c.settle(validJSON(data), nil, "")
	if err != nil {
		yield(ev, unreadable(err))
		return
	}
	if said := Read(ev.Response.Items); x.stream && said.Text+said.Refusal != "" {
		if !yield(Event{Delta: said.Text + said.Refusal}, nil) {
			return
		}
	}
	yield(ev, nil)
}

func (x *exchange) readStream(yield func(Event, error) bool) {
	events := newSSEReader(x.w, int(min(x.c.maxBytes, maxEvent)))
	defer events.close()
	r := reducer{c: x.c}
	for {
		e, err := events.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			yield(Event{}, x.c.broken(x.ctx, x.w, cut, err))
			return
		}
		ev, terminal, err := r.apply(e)
		x.w.finished = terminal
		switch {
		case err != nil:
			yield(ev, unreadable(err))
			return
		case terminal:
			yield(ev, nil)
			return
		case ev.Delta == "":
		case !yield(ev, nil):
			return
		}
	}
}

// unreadable makes a fault of an answer that cannot be read; a fault stays one.
func unreadable(err error) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	return agent.Errorf(agent.KindProviderFailed, "%s", malformed).Because(fmt.Errorf("read the answer: %w", err))
}
