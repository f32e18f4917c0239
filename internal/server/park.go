package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A connection costs net/http 14 KB and two goroutines for as long as its handler runs, and
// an allocation for each larger chunk, with which the collector is helped while it runs. A
// stream that is open for longer than parkAfter does without: its connection is taken from
// net/http, the events are written to it in the chunks that the header has promised, and
// when the stream is over net/http gets the connection back for the client's next request
// (decision D155). It needs a connection without TLS, by HTTP/1.1, on our own http.Server:
// nobody has put anything between then.
const parkAfter = 250 * time.Millisecond

// errLong is a stream that is open for long enough to be parked.
var errLong = errors.New("the stream is open for long")

// lot is where streams are parked.
type lot struct {
	hangups hangups
	streams sync.WaitGroup
	closing chan struct{} // closed when they are to end

	mu       sync.Mutex // guards what follows
	closed   bool
	returned map[*returned]bool // the connections that net/http has got back and nobody used
}

// enter takes a stream in, unless all are to end.
func (l *lot) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.streams.Add(1)
	}
	return !l.closed
}

// end has all streams end, and takes no more in.
func (l *lot) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		close(l.closing)
	}
	l.closed = true
	// net/http takes them for new ones, on which a request may be about to come, and would
	// wait for it.
	for c := range l.returned {
		_ = c.Conn.Close()
	}
}

// webKey is the key under which a request's context has the http.Server that it came to, if
// that is one of ours and the connection can be watched.
type webKey struct{}

// parked is a stream whose connection is taken from net/http.
type parked struct {
	s    *Server
	web  *http.Server
	r    *http.Request
	x    *exchange
	w    *writer
	conn net.Conn
	// early is what the client has sent behind its request.
	early []byte
	out   *chunks
	gone  func()
	// follow writes the rest of the stream.
	follow func(r *http.Request, closing <-chan struct{}) error
}

// park takes the connection of a stream from net/http and reports whether it could. The
// stream goes on with follow when the handler has returned; ctx, which outlives the handler,
// is then its request's, and gone is called when the client hangs up.
func (s *Server) park(ctx context.Context, gone func(), w http.ResponseWriter, r *http.Request, follow func(*http.Request, <-chan struct{}) error) bool {
	web, _ := r.Context().Value(webKey{}).(*http.Server)
	out, ours := w.(*writer)
	x := exchangeOf(r)
	// What is left of a body would be taken for the next request.
	whole := r.Body == http.NoBody || x.read
	if web == nil || !ours || !whole || r.TLS != nil || !r.ProtoAtLeast(1, 1) {
		return false
	}
	if !s.lot.enter() {
		return false
	}
	conn, in, err := out.rc.Hijack()
	if err != nil {
		s.lot.streams.Done()
		return false
	}
	early, _ := in.Reader.Peek(in.Reader.Buffered())
	if before, ok := conn.(*returned); ok && len(before.first) == 0 {
		conn = before.Conn
	}
	// The request lives on without anything of net/http's.
	r = r.WithContext(ctx)
	r.Body = http.NoBody
	p := &parked{s: s, web: web, r: r, x: x, w: out, conn: conn, early: bytes.Clone(early), out: &chunks{Conn: conn}, gone: gone, follow: follow}
	out.ResponseWriter, out.rc, out.extended = p.out, http.NewResponseController(p.out), time.Time{}
	x.parked = p
	return true
}

// run ends the exchange that the handler has left.
func (p *parked) run() {
	defer p.s.lot.streams.Done()
	defer p.gone()
	forget := p.s.lot.hangups.watch(p.conn, p.gone)
	defer func() {
		if v := recover(); v != nil {
			p.x.err = panicked(v)
		}
		whole := p.s.finish(p.w, p.r, p.x)
		forget()
		if !whole || p.out.end(p.s.writeTimeout) != nil || p.r.Close || !p.s.lot.giveBack(p) {
			_ = p.conn.Close()
		}
	}()
	p.x.err = p.follow(p.r, p.s.lot.closing)
}

// giveBack has net/http go on with a connection, unless the server goes down.
func (l *lot) giveBack(p *parked) bool {
	c := &returned{Conn: p.conn, lot: l, first: p.early}
	l.mu.Lock()
	stays := !l.closed && !p.s.Draining()
	if stays {
		if l.returned == nil {
			l.returned = map[*returned]bool{}
		}
		l.returned[c] = true
	}
	l.mu.Unlock()
	if !stays {
		return false
	}
	_ = c.SetDeadline(time.Time{})
	once := &single{conn: c}
	_ = p.web.Serve(once) // until it asks for another connection
	if once.conn != nil {
		_ = c.Close() // the http.Server is closed
	}
	return true
}

// single is a listener to which one connection comes.
type single struct{ conn net.Conn }

func (s *single) Accept() (net.Conn, error) {
	c := s.conn
	if s.conn = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return &net.TCPAddr{} }

// returned is a connection that net/http has got back. It knows whether it was used since.
type returned struct {
	net.Conn
	lot   *lot
	first []byte // of what the client has sent, what net/http had read before
	used  bool   // nothing more is to be done about it
}

// Read reads what came first, first.
func (c *returned) Read(b []byte) (n int, err error) {
	if len(c.first) > 0 {
		n = copy(b, c.first)
		c.first = c.first[n:]
	} else {
		n, err = c.Conn.Read(b)
	}
	if !c.used {
		c.used = true
		c.lot.forget(c)
	}
	return n, err
}

// Close closes the connection.
func (c *returned) Close() error {
	c.lot.forget(c)
	return c.Conn.Close()
}

func (l *lot) forget(c *returned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.returned, c)
}

// chunks is the http.ResponseWriter of an answer in chunks (RFC 9112 §7.1) of which the
// header is out.
type chunks struct {
	net.Conn
	unsent *[]byte // lent by buffers while there are any
}

// Header returns nothing that anybody would see.
func (c *chunks) Header() http.Header { return http.Header{} }

// WriteHeader does nothing.
func (c *chunks) WriteHeader(int) {}

// Write makes a chunk of b, to be sent with the next flush, or now if it is large.
func (c *chunks) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil // an empty chunk would be the last one
	}
	if c.unsent == nil {
		c.unsent = buffers.Get().(*[]byte)
		*c.unsent = (*c.unsent)[:0]
	}
	u := strconv.AppendInt(*c.unsent, int64(len(b)), 16)
	u = append(append(append(u, "\r\n"...), b...), "\r\n"...)
	if *c.unsent = u; len(u) < maxFlush {
		return len(b), nil
	}
	if err := c.FlushError(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError sends what was written.
func (c *chunks) FlushError() error {
	if c.unsent == nil {
		return nil
	}
	lent := c.unsent
	c.unsent = nil
	_, err := c.Conn.Write(*lent)
	if cap(*lent) <= 2*maxFlush {
		buffers.Put(lent)
	}
	return err
}

// end sends the rest, and with it that there is no more.
func (c *chunks) end(timeout time.Duration) error {
	if c.unsent == nil {
		c.unsent = buffers.Get().(*[]byte)
		*c.unsent = (*c.unsent)[:0]
	}
	*c.unsent = append(*c.unsent, "0\r\n\r\n"...)
	_ = c.SetWriteDeadline(time.Now().Add(timeout))
	return c.FlushError()
}

// EndParked ends the streams that are parked, which http.Server's Shutdown does not know of:
// each of them writes what there is. It waits for them, and returns ctx's error when that
// ends first.
func (s *Server) EndParked(ctx context.Context) error {
	s.lot.end()
	none := make(chan struct{})
	go func() {
		defer close(none)
		s.lot.streams.Wait()
	}()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
