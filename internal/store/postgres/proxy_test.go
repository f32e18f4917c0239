package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// side is an end of a connection.
type side int

const (
	client side = iota
	server
)

func (s side) String() string { return [...]string{"client", "server"}[s] }

// proxy stands between a store and the server. It knows where a message of the protocol
// ends, so that it can break a connection at any step.
type proxy struct {
	listener net.Listener
	socket   string
	work     sync.WaitGroup

	mu    sync.Mutex        // guards what follows
	conns map[net.Conn]bool // true: it is deaf, and what it says is lost
	from  side              // of whom the messages are counted
	left  int               // how many more of them are delivered; negative: all
	fired bool
	after bool // nothing is let through after the cut
	down  bool
	trips int // how often a client has waited for the server
	named int // statements that were given a name
}

// newProxy starts a proxy to the server of the tests.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, socket: cluster.Socket(), conns: map[net.Conn]bool{}, left: -1}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.breakAll()
		p.work.Wait()
	})
	return p
}

// through returns the connection string by which the database is reached over the proxy,
// on one connection.
func (p *proxy) through(database string) string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return database + " host=127.0.0.1 pool_max_conns=1 port=" + port
}

// arm breaks the connection in the place of the n-th message of a side, counted from now.
// That message is not delivered. down keeps everybody out afterwards.
func (p *proxy) arm(from side, n int, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from, p.left, p.fired, p.after, p.down = from, n, false, down, false
}

// disarm lets all through again, and reports whether there was a cut.
func (p *proxy) disarm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.down = -1, false
	return p.fired
}

// breakAll breaks the connections that there are.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // the other direction may have been first
	}
}

// deafen makes the connections that there are lead nowhere, without a word to anybody, as
// when a machine has lost its power. New ones get through.
func (p *proxy) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

func (p *proxy) isDeaf(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[c]
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		down := p.down
		p.conns[c], p.conns[s] = false, false
		p.mu.Unlock()
		if down {
			p.end(c, s)
			continue
		}
		p.work.Go(func() { p.forward(client, c, s) })
		p.work.Go(func() { p.forward(server, s, c) })
	}
}

func (p *proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// forward delivers what one side says, message by message, until the connection ends.
func (p *proxy) forward(of side, from, to net.Conn) {
	defer p.end(from, to)
	for first := of == client; ; first = false {
		message, err := next(from, first)
		if err != nil || first && isCancel(message) || p.cuts(of) {
			return
		}
		if of == client && !first {
			p.count(message)
		}
		if p.isDeaf(from) {
			continue
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

// isCancel reports whether a client that has lost its connection asks the server to break
// off what it was about. Nothing of that gets through, as when the network is gone.
func isCancel(message []byte) bool {
	return len(message) >= 8 && binary.BigEndian.Uint32(message[4:]) == 80877102
}

// next reads a message. The client's first one has no type.
func next(from io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	if length < 4 {
		return nil, errors.New("a message shorter than its length")
	}
	body := make([]byte, length-4)
	_, err := io.ReadFull(from, body)
	return append(head, body...), err
}

// count looks at what a client says: Sync and Query end a round trip, Parse may name a
// statement.
func (p *proxy) count(message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch message[0] {
	case 'S', 'Q':
		p.trips++
	case 'P':
		if message[5] != 0 {
			p.named++
		}
	}
}

// counted returns the round trips and the named statements since the last call.
func (p *proxy) counted() (trips, named int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trips, named = p.trips, p.named
	p.trips, p.named = 0, 0
	return trips, named
}

// cuts counts a message and reports whether the connection breaks in its place.
func (p *proxy) cuts(of side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 || of != p.from {
		return false
	}
	p.left--
	if p.left >= 0 {
		return false
	}
	p.fired, p.down = true, p.after
	return true
}
