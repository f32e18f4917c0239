package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// These tests run real HTTP over connections in memory, in a bubble where time
// passes only when everybody waits: timeouts are exact and cost nothing.

// pipes is a listener whose connections are in memory and have no buffers.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// online serves the rig in a bubble and gives the test a way to connect.
func online(t *testing.T, test func(t *testing.T, r *rig, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := r.HTTPServer("")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(l)
		}()
		var clients []net.Conn
		test(t, r, func() net.Conn {
			here, there := net.Pipe()
			l.conns <- there
			clients = append(clients, here)
			return here
		})
		for _, c := range clients {
			_ = c.Close()
		}
		_ = server.Close()
		<-done
		synctest.Wait()
	})
}

func send(t *testing.T, c net.Conn, head, body string) {
	t.Helper()
	if _, err := io.WriteString(c, head+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+body); err != nil {
		t.Fatal(err)
	}
}

func sized(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

// ended reads until the server closes the connection and tells when that was.
func ended(t *testing.T, c net.Conn, start time.Time) (string, time.Duration) {
	t.Helper()
	text, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read until the end: %v", err)
	}
	return string(text), time.Since(start)
}

// L-4: half a header is waited for no longer than its time.
func TestConnection_HeadersThatDripAreGivenUp(t *testing.T) {
	online(t, func(t *testing.T, _ *rig, dial func() net.Conn) {
		c, start := dial(), time.Now()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: loc"); err != nil {
			t.Fatal(err)
		}
		_, after := ended(t, c, start)
		t.Logf("L-4: half a header is given up after %s", after)
		if after > 10*time.Second {
			t.Errorf("closed after %s, want 10 s at most", after)
		}
	})
}

// L-4: nor is a body that stands still.
func TestConnection_BodyThatStandsStillIsGivenUp(t *testing.T) {
	for _, rt := range []string{"POST /v1/agent/execute", "GET /v1/modes"} { // also where nobody reads the body
		t.Run(rt, func(t *testing.T) {
			online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				c, start := dial(), time.Now()
				send(t, c, rt, "Content-Length: 100\r\n\r\n{")
				text, after := ended(t, c, start)
				t.Logf("L-4: half a body is given up after %s", after)
				if after > 10*time.Second {
					t.Errorf("closed after %s, want 10 s at most", after)
				}
				if strings.HasPrefix(rt, "POST") && !strings.Contains(text, `"code":"invalid_request"`) {
					t.Errorf("after %s: %s", after, text)
				}
				if len(r.turns.submitted) > 0 {
					t.Error("a turn was submitted")
				}
			})
		})
	}
}

// L-4: nor is a body that drips.
func TestConnection_BodyThatDripsIsGivenUp(t *testing.T) {
	online(t, func(t *testing.T, _ *rig, dial func() net.Conn) {
		c, start := dial(), time.Now()
		send(t, c, "POST /v1/agent/execute", "Content-Length: 100\r\n\r\n")
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for range 100 {
				time.Sleep(5 * time.Second) // of the bubble
				if _, err := io.WriteString(c, "{"); err != nil {
					return
				}
			}
		}()
		if _, after := ended(t, c, start); after > 10*time.Second+time.Millisecond { // what came has earned it a little
			t.Errorf("closed after %s, want 10 s", after)
		}
		<-dripped
	})
}

// A body on a poor line arrives: what it brings earns it time.
func TestConnection_SlowBodyIsTaken(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.turns.completed()
		c := dial()
		body := `{"sessionId":"s1","turnId":"t1","instruction":"` + strings.Repeat("x", 400<<10) + `"}`
		go func() {
			send(t, c, "POST /v1/agent/execute", fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)))
			for part := range slices.Chunk([]byte(body), 20<<10) {
				time.Sleep(time.Second) // of the bubble
				if _, err := c.Write(part); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("got %v, %v", res, err)
		}
	})
}

func TestConnection_LongTurnOutlivesTheDeadlineOfItsBody(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.turns.completed()
		r.turns.await = func(ctx context.Context) (agent.Turn, error) {
			select {
			case <-time.After(10 * time.Minute):
				return r.turns.script.turn, nil
			case <-ctx.Done():
				return agent.Turn{}, ctx.Err()
			}
		}
		c := dial()
		send(t, c, "POST /v1/agent/execute", sized(hello))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("got %d", res.StatusCode)
		}
	})
}

// hang yields the first event and then waits for ctx.
func hang(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		if yield(agent.Event{Type: agent.EventTurnStarted, Sequence: 1, SessionID: key.Session, TurnID: key.Turn}, nil) {
			<-ctx.Done()
		}
	}
}

func TestConnection_SilentStreamHasHeartbeats(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
		r.turns.follow = hang
		c, start := dial(), time.Now()
		send(t, c, "GET /v1/sessions/s1/turns/t1/events", "\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(res.Body)
		for beats := 0; beats < 4; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, ":") {
				beats++
				if got := time.Since(start); got > 15*time.Second || got < 13*time.Second {
					t.Errorf("heartbeat after %s of silence, want 15 s, up to an eighth less", got)
				}
				start = time.Now()
			}
		}
		_ = c.Close()
		synctest.Wait() // the handler and what it reads end with the connection, or the bubble panics
		if !strings.Contains(r.log.String(), "clientGone=true") {
			t.Errorf("log: %s", r.log)
		}
	})
}

// A stream is silent from its last event on, not from when the heartbeat was last looked at.
func TestConnection_EventsPutTheHeartbeatOff(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
		r.turns.follow = func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
			return func(yield func(agent.Event, error) bool) {
				for n := range int64(10) {
					if !yield(agent.Event{Type: agent.EventTextDelta, Text: "x", Sequence: n + 1, SessionID: key.Session, TurnID: key.Turn}, nil) {
						return
					}
					time.Sleep(7 * time.Second)
				}
				<-ctx.Done()
			}
		}
		c := dial()
		send(t, c, "GET /v1/sessions/s1/turns/t1/events", "\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(res.Body)
		events, last := 0, time.Now()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "event:") {
				events, last = events+1, time.Now()
			}
			if strings.HasPrefix(line, ":") {
				break
			}
		}
		if got := time.Since(last); events != 10 || got > 15*time.Second || got < 13*time.Second {
			t.Errorf("heartbeat after %d events and %s of silence, want 10 and 15 s, up to an eighth less", events, got)
		}
		_ = c.Close()
		synctest.Wait()
	})
}

// L-3: a reader that takes nothing is cut after its time.
func TestConnection_ReaderThatStallsIsCut(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		released := make(chan time.Time, 1)
		r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
		r.turns.follow = func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
			return func(yield func(agent.Event, error) bool) {
				defer func() { released <- time.Now() }()
				for n := int64(1); ; n++ {
					e := agent.Event{Type: agent.EventTextDelta, Text: strings.Repeat("x", 1000), Sequence: n, SessionID: key.Session, TurnID: key.Turn}
					if !yield(e, nil) {
						return
					}
				}
			}
		}
		c, start := dial(), time.Now()
		send(t, c, "GET /v1/sessions/s1/turns/t1/events", "\r\n")
		// Nobody reads from c: the server's first write already has nowhere to go.
		after := (<-released).Sub(start)
		t.Logf("L-3: a reader that takes nothing is cut after %s", after)
		if after > 31*time.Second {
			t.Errorf("cut after %s, want 30 s at most", after)
		}
		synctest.Wait()
		if log := r.log.String(); !strings.Contains(log, "clientGone=true") || strings.Contains(log, "level=ERROR") {
			t.Errorf("log: %s", log)
		}
	})
}

func TestConnection_SlowReaderOfALongAnswerIsServed(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		long := `{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":"` + strings.Repeat("x", 1<<20) + `"}`
		r.turns.completed()
		r.turns.script.turn.Response = []byte(long)
		c := dial()
		send(t, c, "POST /v1/agent/execute", sized(hello))
		res, err := http.ReadResponse(bufio.NewReader(slow{c}), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || string(got) != long {
			t.Errorf("read %d of %d bytes: %v", len(got), len(long), err)
		}
	})
}

// slow reads 4 KiB a second.
type slow struct{ net.Conn }

func (s slow) Read(b []byte) (int, error) {
	time.Sleep(time.Second) // of the bubble
	return s.Conn.Read(b[:min(len(b), 4096)])
}

func TestConnection_StreamThatBreaksOffIsCutShort(t *testing.T) {
	for name, follow := range map[string]func(context.Context, agent.TurnKey, int64) iter.Seq2[agent.Event, error]{
		"with an error": func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
			return func(yield func(agent.Event, error) bool) {
				yield(agent.Event{Type: agent.EventTurnStarted, Sequence: 1, SessionID: key.Session, TurnID: key.Turn}, nil)
				yield(agent.Event{}, agent.Errorf(agent.KindDraining, "The server stopped under the turn."))
			}
		},
		"without a last event": func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
			return func(yield func(agent.Event, error) bool) {
				yield(agent.Event{Type: agent.EventTurnStarted, Sequence: 1, SessionID: key.Session, TurnID: key.Turn}, nil)
			}
		},
		"in a panic": func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
			return func(yield func(agent.Event, error) bool) {
				yield(agent.Event{Type: agent.EventTurnStarted, Sequence: 1, SessionID: key.Session, TurnID: key.Turn}, nil)
				panic("in the follower")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
				r.turns.follow = follow
				c := dial()
				send(t, c, "GET /v1/sessions/s1/turns/t1/events", "\r\n")
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got error %v, want the connection cut", err)
				}
				events := parseSSE(t, string(body))
				if len(events) != 1 || events[0].event != "turn.started" {
					t.Errorf("got %+v, want turn.started alone", events)
				}
			})
		})
	}
}

func TestConnection_TooLargeBodyIsNotReadToItsEnd(t *testing.T) {
	online(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.limits.Body = 1000
		c := dial()
		sent := make(chan int, 1)
		go func() {
			n := 0
			head := "POST /v1/agent/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
			if _, err := io.WriteString(c, head); err != nil {
				t.Error(err)
			}
			for n < 1<<20 {
				if _, err := io.WriteString(c, "100\r\n"+strings.Repeat(" ", 256)+"\r\n"); err != nil {
					break
				}
				n += 256
			}
			sent <- n
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusRequestEntityTooLarge || !res.Close {
			t.Errorf("got %d, close %v", res.StatusCode, res.Close)
		}
		if n := <-sent; n > 1000+64<<10 {
			t.Errorf("the server took %d bytes, want at most the limit and 64 KiB", n)
		}
	})
}
