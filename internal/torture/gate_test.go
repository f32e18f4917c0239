package torture

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate stands between a node and a server that it works with. It can be shut, or go deaf.
type gate struct {
	listener net.Listener
	target   func() (network, address string)
	work     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	shut  bool
	// passing is closed while what is said is passed on, else it is open: nothing is
	// refused then, and nothing lost, but it comes late.
	passing chan struct{}
}

func newGate(t testing.TB, target func() (network, address string)) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, target: target, conns: map[net.Conn]bool{}, passing: make(chan struct{})}
	close(g.passing)
	g.work.Go(g.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		g.open()
		g.cut()
		g.work.Wait()
	})
	return g
}

func (g *gate) address() string { return g.listener.Addr().String() }

func (g *gate) accept() {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.work.Go(func() { g.join(in) })
	}
}

// join carries one connection.
func (g *gate) join(in net.Conn) {
	defer func() { _ = in.Close() }()
	if !g.admit(in) {
		return
	}
	defer g.forget(in)
	network, address := g.target()
	out, err := net.Dial(network, address)
	if err != nil || !g.admit(out) {
		return
	}
	defer g.forget(out)
	defer func() { _ = out.Close() }()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			g.carry(way[1], way[0])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
}

func (g *gate) carry(to io.Writer, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		g.mu.Lock()
		passing := g.passing
		g.mu.Unlock()
		<-passing
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (g *gate) admit(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.conns[c] = true
	return true
}

func (g *gate) forget(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// cut breaks all connections.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
	}
}

// close breaks all connections and refuses new ones.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.cut()
}

// stall passes nothing on until the gate is opened.
func (g *gate) stall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing = make(chan struct{})
}

// open lets everything through again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	select {
	case <-g.passing:
	default:
		close(g.passing)
	}
}
