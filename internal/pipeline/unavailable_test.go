package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// line is a connection to the database that a test can cut.
type line struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	cut   bool
}

func newLine(t *testing.T) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &line{listener: l, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.set(true)
		p.work.Wait()
	})
	return p
}

// over returns a connection string that goes over the line.
func (p *line) over(database string) string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return database + " host=127.0.0.1 port=" + port
}

// set cuts the line, or mends it.
func (p *line) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut = cut; cut {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

func (p *line) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", cluster.Socket())
		p.mu.Lock()
		if err != nil || p.cut {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.carry(client, server)
		p.carry(server, client)
	}
}

func (p *line) carry(to, from net.Conn) {
	p.work.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	})
}

// awaitLong awaits a turn as a client does that is told to come again.
func (r *rig) awaitLong(key agent.TurnKey) agent.Turn {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	for {
		turn, err := r.pipeline.Await(ctx, key)
		if agent.KindOf(err) == agent.KindUnavailable && ctx.Err() == nil {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return turn
	}
}

// The store is out of reach for a while, as when its primary changes. What runs goes on
// and is written when it is back, also when a node had to let go of it meanwhile; what is
// new is refused and may be sent again.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		writeTime time.Duration
		epoch     int64
		asked     int
	}{
		{"for less time than a write has", 30 * time.Second, 1, 1},
		{"for longer than a write has", 200 * time.Millisecond, 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release := make(chan struct{})
			p := newLine(t)
			r := newRig(t, withDatabase(p.over(cluster.Database(t))), withModel(t, llmtest.Reply{Text: "Here.", Block: release}, llmtest.Reply{Text: "Here."}),
				func(r *rig) { r.times.SettleTime = tt.writeTime }, brief)
			key := r.submit(userTurn("s1", "t1", "Hello"))
			r.asked(1)
			awaited := make(chan agent.Turn, 1)
			go func() { awaited <- r.awaitLong(key) }()

			left := r.pipeline.Left(key)
			p.set(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _, err := r.pipeline.Submit(ctx, caller, userTurn("s2", "t1", "Hello"))
			if fault := agent.FaultOf(err); fault.Kind != agent.KindUnavailable || fault.RetryAfter == 0 {
				t.Errorf("a new turn: %v, %+v", err, fault)
			}
			close(release)
			if tt.epoch > 1 {
				<-left
			}
			p.set(false)
			turn := <-awaited
			if turn.State != agent.TurnCompleted || r.answer(turn).PrimaryOutputText != "Here." || turn.Epoch != tt.epoch {
				t.Errorf("turn %s at epoch %d, %s", turn.State, turn.Epoch, turn.Response)
			}
			r.journal(turn)
			if got := len(r.provider.Requests()); got != tt.asked {
				t.Errorf("the model was asked %d times, want %d", got, tt.asked)
			}
		})
	}
}

// A commit whose outcome nobody knows is not told as a failure of the turn: the turn is
// there, or it is not, and the same request finds out.
func TestUnavailable_WhileATurnOpens(t *testing.T) {
	t.Parallel()
	p := newLine(t)
	database := cluster.Database(t)
	const turns = 20
	var replies []llmtest.Reply
	for range 2 * turns {
		replies = append(replies, llmtest.Reply{Text: "Here."})
	}
	r := newRig(t, withDatabase(p.over(database)), withModel(t, replies...), brief)
	var work sync.WaitGroup
	for i := range turns {
		work.Go(func() {
			u := userTurn(fmt.Sprint("s", i), "t1", "Hello")
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				key, _, err := r.pipeline.Submit(ctx, caller, u)
				cancel()
				if agent.KindOf(err) == agent.KindUnavailable {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if turn := r.awaitLong(key); turn.State != agent.TurnCompleted {
					t.Errorf("turn %s: %+v", turn.State, turn.Fault)
				} else {
					r.journal(turn)
				}
				return
			}
		})
	}
	for i := range 6 {
		p.set(i%2 == 0)
		wait(200 * time.Millisecond)
	}
	work.Wait()
}

// While the store was away all leases have run out, but their owners live. They keep their
// turns: nobody is quicker, and nothing is asked again.
func TestUnavailable_OwnersKeepTheirTurns(t *testing.T) {
	t.Parallel()
	const turns = 8
	release := make(chan struct{})
	var replies []llmtest.Reply
	for range turns {
		replies = append(replies, llmtest.Reply{Text: "Once.", Block: release})
	}
	p := newLine(t)
	database, provider := p.over(cluster.Database(t)), llmtest.New(t, replies...)
	shared := func(r *rig) { r.provider, r.times.SweepEvery = provider, 20*time.Millisecond }
	a := newRig(t, withDatabase(database), brief, shared)
	newRig(t, withDatabase(database), brief, shared) // which looks for turns that nobody runs all the time
	var keys []agent.TurnKey
	for i := range turns {
		keys = append(keys, a.submit(userTurn(fmt.Sprint("s", i), "t1", "Hello")))
	}
	a.asked(turns)
	p.set(true)
	wait(a.times.Lease + time.Second) // the lease's time is the database's
	p.set(false)
	wait(a.times.Lease) // in which one who may would have taken them over
	close(release)
	for _, key := range keys {
		if turn := a.awaitLong(key); turn.State != agent.TurnCompleted || turn.Epoch != 1 {
			t.Errorf("turn %s at epoch %d", turn.State, turn.Epoch)
		}
	}
	if got := len(provider.Requests()); got != turns {
		t.Errorf("the model was asked %d times for %d turns", got, turns)
	}
}

// wait lets time pass that nothing in the process tells of.
func wait(d time.Duration) {
	passed := make(chan struct{})
	time.AfterFunc(d, func() { close(passed) })
	<-passed
}
