package outbound

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// plain carries small requests over http, without TLS and without a proxy: what a server
// sends to a model of its own network. What goes over the wire is written and read by
// net/http; the goroutine that asks does it. http.Transport keeps two goroutines and two
// buffers for every connection, some 14 KB while an answer streams, and each request changes
// goroutines four times. There are as many open answers as there are running turns
// (decision D154).
type plain struct {
	dial func(ctx context.Context, network, hostPort string) (net.Conn, error)

	mu    sync.Mutex // guards what follows
	idle  map[string][]*plainConn
	count int         // of idle connections
	sweep *time.Timer // runs as long as there are any
}

// maxPlainBody is how long a body may be that is written before the answer is looked for. A
// longer one could fill the buffers of a connection whose other end has answered without
// reading it.
const maxPlainBody = 64 << 10

// carries reports whether a request that goes through no proxy is one for plain.
func (p *plain) carries(req *http.Request) bool {
	small := req.Body == nil || req.Body == http.NoBody || 0 < req.ContentLength && req.ContentLength <= maxPlainBody
	return havePlain && small && req.URL.Scheme == "http" && isASCII(req.URL.Host) && req.Trailer == nil &&
		req.Header["Upgrade"] == nil && req.Header["Expect"] == nil && req.Header["Te"] == nil
}

// isASCII tells the hosts that can be dialled as they are written.
func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

// roundTrip is http.RoundTripper's. Its hooks for traces are those about connections and
// the request that is written.
func (p *plain) roundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close() //nolint:errcheck // nothing is left to be done about it
	}
	ctx := req.Context()
	c, err := p.connect(ctx, hostPort(req.URL))
	if err != nil {
		return nil, err
	}
	// Whatever the exchange waits for, it lets go when the context ends.
	stop := context.AfterFunc(ctx, c.cut)
	resp, err := c.exchange(req)
	if err != nil {
		stop()
		c.cut()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	b := &plainBody{ReadCloser: resp.Body, plain: p, conn: c, ctx: ctx, stop: stop,
		keep: !resp.Close && !req.Close && resp.StatusCode != http.StatusSwitchingProtocols}
	if resp.Body == http.NoBody {
		b.over(b.keep)
		return resp, nil
	}
	resp.Body = b
	return resp, nil
}

// connect returns a connection that nobody uses, or a new one.
func (p *plain) connect(ctx context.Context, hostPort string) (*plainConn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(hostPort)
	}
	c := p.take(hostPort)
	info := httptrace.GotConnInfo{Reused: c != nil, WasIdle: c != nil}
	if c == nil {
		conn, err := p.dial(ctx, "tcp", hostPort)
		if err != nil {
			return nil, err
		}
		c = &plainConn{Conn: conn, hostPort: hostPort}
		c.in = bufio.NewReaderSize(c, plainBuffer)
	}
	if trace != nil && trace.GotConn != nil {
		info.Conn = c.Conn
		trace.GotConn(info)
	}
	return c, nil
}

// take returns the connection that was used last and is still open, or nil.
func (p *plain) take(hostPort string) *plainConn {
	for {
		p.mu.Lock()
		idle := p.idle[hostPort]
		if len(idle) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := idle[len(idle)-1]
		idle[len(idle)-1] = nil
		p.idle[hostPort] = idle[:len(idle)-1]
		p.count--
		p.mu.Unlock()
		if time.Since(c.since) < idleTimeout && isQuiet(c.Conn) {
			return c
		}
		c.cut()
	}
}

// put keeps a connection for the next request.
func (p *plain) put(c *plainConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == idlePerHost {
		c.cut()
		return
	}
	c.since = time.Now()
	if p.idle == nil {
		p.idle = map[string][]*plainConn{}
	}
	p.idle[c.hostPort] = append(p.idle[c.hostPort], c)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleTimeout, func() { p.expire(time.Now()) })
	}
}

// expire closes the connections that have not been used for idleTimeout.
func (p *plain) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, idle := range p.idle {
		// The oldest stand first.
		young := slices.IndexFunc(idle, func(c *plainConn) bool { return now.Sub(c.since) < idleTimeout })
		if young < 0 {
			young = len(idle)
		}
		for _, c := range idle[:young] {
			c.cut()
		}
		p.count -= young
		if p.idle[at] = slices.Delete(idle, 0, young); len(p.idle[at]) == 0 {
			delete(p.idle, at)
		}
	}
	switch {
	case p.sweep == nil: // closeIdle came first
	case p.count == 0:
		p.sweep.Stop()
		p.sweep = nil
	default:
		p.sweep.Reset(idleTimeout / 2)
	}
}

func (p *plain) closeIdle() { p.expire(time.Now().Add(idleTimeout)) }

// plainConn is one connection. Only one request uses it at a time.
type plainConn struct {
	net.Conn
	hostPort string
	in       *bufio.Reader
	left     int64     // bytes that may still be read
	since    time.Time // when it became idle
}

// plainBuffer is small: what is large passes by it.
const plainBuffer = 1 << 10

// writers are lent for as long as a request is written.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 8<<10) }}

var errHeaderTooLong = errors.New("the header of the answer is too long")

// Read reads no more than may be read.
func (c *plainConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLong
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// cut closes the connection, and with that ends whatever waits for it.
func (c *plainConn) cut() { _ = c.Conn.Close() }

// exchange writes a request and reads the header of its answer.
func (c *plainConn) exchange(req *http.Request) (*http.Response, error) {
	w := writers.Get().(*bufio.Writer)
	w.Reset(c.Conn)
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	if err != nil {
		return nil, err
	}
	c.left = maxHeaderBytes
	for {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil {
			return nil, err
		}
		// What comes before the answer says nothing to us, and counts as its header.
		if interim := resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols; !interim {
			c.left = math.MaxInt64
			return resp, nil
		}
	}
}

// plainBody is the body of an answer. Close may be called while Read waits.
type plainBody struct {
	io.ReadCloser
	plain *plain
	conn  *plainConn
	ctx   context.Context // the request's
	stop  func() bool     // ctx does not cut the connection any more
	keep  bool            // the connection may be used again after the end
	ended atomic.Bool     // the connection is somebody else's now, or closed
}

// Read reads the body. Its end frees the connection.
func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	b.over(b.keep && errors.Is(err, io.EOF))
	if !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close closes the connection, unless the body is read to its end.
func (b *plainBody) Close() error {
	b.over(false)
	return nil
}

// over lets go of the connection, once.
func (b *plainBody) over(keep bool) {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	// A connection that somebody cuts, or on which more came than was asked for, is of no
	// use to the next request.
	if uncut := b.stop(); keep && uncut && b.conn.in.Buffered() == 0 {
		b.plain.put(b.conn)
		return
	}
	b.conn.cut()
}
