package llm

import (
	"bytes"
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
	"github.com/aptixhq/aptix/internal/telemetry"
)

// exchange is one request whose answer has begun with a status of 2xx: from here on
// the answer may have been generated, and nobody may ask for it again.
type exchange struct {
	reducer // takes what events, of a stream, reads
	events  *sseReader
	ctx     context.Context // the caller's, to tell his wish from our bounds
	w       *watch
	kind    string // what the answer calls itself
	stream  bool
}

// errUnsent marks a fault that came before there was a connection, so that the
// provider cannot have seen the request.
var errUnsent = errors.New("nothing was sent")

// open posts the request and waits for the status line. An error is one of three: the
// end of ctx, a *StatusError, which is the provider's own no, or a broken connection,
// which is errUnsent if the provider cannot know of the request.
func (c *Client) open(ctx context.Context, request *Wire, stream bool, within time.Duration) (*exchange, error) {
	w := newWatch(ctx, within, c.idle, c.maxBytes)
	if !stream {
		// One document may be silent until it is whole.
		w.silence.Stop()
	}
	resp, err := c.post(w.ctx, request, stream)
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
	kind := mediaType(resp)
	// The body holds on to the answer that it is the body of, for a trailer, and so to all of
	// the request. Nobody asks for these while it is read, which may take minutes.
	resp.Header, resp.Request = nil, nil
	return &exchange{reducer: reducer{c: c}, ctx: ctx, w: w, kind: kind, stream: stream}, nil
}

func (x *exchange) close() { x.w.close() }

func (c *Client) post(ctx context.Context, request *Wire, stream bool) (*http.Response, error) {
	dialled, connected := false, false
	sent := newPayload(request)
	// The answer holds on to its request for as long as it is read.
	defer sent.release()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { dialled = true },
		GotConn:      func(httptrace.GotConnInfo) { connected = true },
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.wrote() },
	})
	if c.badURL != nil {
		return nil, c.badURL
	}
	req := c.request.WithContext(traced)
	if size := sent.buffer.Len(); size > 0 {
		req.ContentLength = int64(size)
		req.Body, req.GetBody = sent.reader(), sent.again
	}
	req.Header = c.header.Clone()
	if !c.key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	telemetry.Inject(ctx, req.Header)
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
// minutes, and with a transcript in it the body is the largest part of a turn. Readers of
// other types than bytes.Reader could let go of it by themselves, but a transport sends
// the header in a packet of its own before them.
type payload struct {
	mu     sync.Mutex    // guards what follows
	buffer *bytes.Buffer // nil once it is released
	first  *bytes.Reader // nil before, and when the body had to be read anew
	read   bool          // first has been, and nobody else reads
}

func newPayload(w *Wire) *payload {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	w.writeTo(b)
	return &payload{buffer: b}
}

// reader returns the body, for the first time.
func (p *payload) reader() io.ReadCloser {
	p.first = bytes.NewReader(p.buffer.Bytes())
	return io.NopCloser(p.first)
}

// again returns the body for another attempt of the transport, before the answer begins.
// It is kept then: which of the attempts has been written nobody can tell.
func (p *payload) again() (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buffer == nil {
		return nil, errors.New("the request is over")
	}
	p.first, p.read = nil, false
	return io.NopCloser(bytes.NewReader(p.buffer.Bytes())), nil
}

// wrote is called by whoever has read the body, or given up.
func (p *payload) wrote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first != nil {
		p.first.Reset(nil)
		p.read = true
	}
}

// release forgets the body: nobody asks for it again. Somebody may read it still, of a request
// that was answered before it was whole.
func (p *payload) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read {
		release(p.buffer)
	}
	p.buffer = nil
}

// read yields the answer, read as what it calls itself. The last value is a Response
// or an error.
func (x *exchange) read(yield func(Event, error) bool) {
	switch x.kind {
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
	x.events = newSSEReader(x.w, int(min(x.c.maxBytes, maxEvent)))
	defer x.events.close()
	for {
		// A stream waits here for as long as the answer takes: what is done with an event
		// stands in a function of its own, and takes no room on the stack meanwhile.
		e, err := x.events.next()
		if !x.pass(e, err, yield) {
			return
		}
	}
}

// pass takes one event and yields what it says. It reports whether there may be more.
func (x *exchange) pass(e serverEvent, err error, yield func(Event, error) bool) bool {
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		yield(Event{}, x.c.broken(x.ctx, x.w, cut, err))
		return false
	}
	ev, terminal, err := x.apply(e)
	x.w.finished = terminal
	switch {
	case err != nil:
		yield(ev, unreadable(err))
		return false
	case terminal:
		yield(ev, nil)
		return false
	}
	return ev.Delta == "" || yield(ev, nil)
}

// unreadable makes a fault of an answer that cannot be read; a fault stays one.
func unreadable(err error) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	return agent.Errorf(agent.KindProviderFailed, "%s", malformed).Because(fmt.Errorf("read the answer: %w", err))
}
