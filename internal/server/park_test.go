//go:build linux

package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/quota"
)

// slowly is a server on a real connection, whose turn says what the test says when it says
// it.
type slowly struct {
	*rig
	url string

	mu    sync.Mutex // guards what follows
	said  []any      // events, or the error that ends the stream
	again chan struct{}
	// idle is called, once, when there is nothing to read.
	idle func()

	// parked and conns count what the connections have been through.
	parked, conns atomic.Int64
	logged        lines
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// say has the turn go on. Everybody who reads it reads all of it.
func (s *slowly) say(what ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, what...)
	close(s.again)
	s.again = make(chan struct{})
}

// Reader is in the place of the turns' own.
func (s *slowly) Reader(key agent.TurnKey, _ int64) events.Reader[agent.Event] {
	return &slowReader{slowly: s, key: key}
}

type slowTurns struct {
	*fakeTurns
	*slowly
}

func (s slowTurns) Reader(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return s.slowly.Reader(key, after)
}

type slowReader struct {
	*slowly
	key agent.TurnKey
	n   int
}

func (r *slowReader) Close() {}

func (r *slowReader) Next(ctx context.Context) ([]agent.Event, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if r.n == len(r.said) {
		again := r.again
		if idle := r.idle; idle != nil {
			r.idle = nil
			idle()
		}
		return nil, again, nil
	}
	r.n++
	switch what := r.said[r.n-1].(type) {
	case agent.Event:
		what.Sequence, what.SessionID, what.TurnID = int64(r.n), r.key.Session, r.key.Turn
		return []agent.Event{what}, nil, nil
	case error:
		return nil, nil, what
	default:
		panic(what)
	}
}

// newSlowly parks streams at once.
func newSlowly(t *testing.T, with ...func(*Config)) *slowly {
	t.Helper()
	s := &slowly{again: make(chan struct{})}
	s.rig = newRig(t, append(with, func(c *Config) {
		c.Turns, c.Log = slowTurns{c.Turns.(*fakeTurns), s}, slog.New(slog.NewTextHandler(&s.logged, nil))
	})...)
	s.parkAfter = 0
	s.turns.completed()
	web := s.HTTPServer("")
	web.ConnState = func(_ net.Conn, to http.ConnState) {
		switch to {
		case http.StateHijacked:
			s.parked.Add(1)
		case http.StateNew:
			s.conns.Add(1)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = web.Serve(listener) }()
	t.Cleanup(func() {
		_ = web.Close()
		<-served
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.EndParked(ctx); err != nil {
			t.Error("streams stay parked")
		}
	})
	s.url = "http://" + listener.Addr().String()
	return s
}

func text(s string) agent.Event { return agent.Event{Type: agent.EventTextDelta, Text: s} }

var done = agent.Event{Type: agent.EventTurnCompleted, Response: []byte(final)}

const streamed = `{"sessionId":"s1","turnId":"t1","instruction":"hello","stream":true}`

// ask posts a turn with a stream and returns the connection, behind the header.
func (s *slowly) ask(t *testing.T, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "POST /v1/agent/execute "+head+"\r\nHost: localhost\r\nContent-Type: application/json\r\n"+sized(streamed)); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// exchanged sends a request and returns its answer, with the body and what ended that.
func exchanged(ctx context.Context, t *testing.T, client *http.Client, method, url, body string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res, got, err
}

// eventually waits for something that comes a moment later.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("in vain: " + what)
			return
		}
	}
}

// waitParked waits until so many streams have been parked.
func (s *slowly) waitParked(t *testing.T, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d streams are parked", n), func() bool { return s.parked.Load() >= n })
}

// waitLogged waits until so many requests are over, and returns the log.
func (s *slowly) waitLogged(t *testing.T, n int) string {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests are over", n), func() bool { return strings.Count(s.logged.String(), "msg=request") >= n })
	return s.logged.String()
}

// A stream that is parked is the stream that it would have been, byte for byte, and its
// connection carries the client's next requests.
func TestPark_StreamIsTheSame(t *testing.T) {
	tell := []any{agent.Event{Type: agent.EventTurnStarted}, text("Hello"), text(strings.Repeat("long ", 30_000)), text(""), text("\r\n0\r\n\r\n"), done}
	var got [2]string
	for i, parkAfter := range []time.Duration{time.Hour, 0} {
		s := newSlowly(t)
		s.parkAfter = parkAfter
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for n := range 3 {
			told := make(chan struct{})
			go func() {
				defer close(told)
				s.say(tell[:2]...)
				if parkAfter == 0 {
					s.waitParked(t, int64(n+1))
				}
				s.say(tell[2:4]...)
				s.say(tell[4:]...)
			}()
			res, body, err := exchanged(t.Context(), t, client, http.MethodPost, s.url+"/v1/agent/execute", streamed)
			if err != nil {
				t.Fatal(err)
			}
			<-told
			got[i] += fmt.Sprint(res.Status, res.TransferEncoding, res.Close, len(body), "\n", string(body))
			s.waitLogged(t, n+1)
			s.mu.Lock()
			s.said = nil
			s.mu.Unlock()
		}
		// net/http meets a connection anew each time that it gets it back.
		if want := int64(3 * i); s.parked.Load() != want || s.conns.Load() > 1+want {
			t.Errorf("parked %d times, want %d; %d connections began, want %d", s.parked.Load(), want, s.conns.Load(), 1+want)
		}
		if log := s.logged.String(); strings.Count(log, "msg=request") != 3 || strings.Contains(log, "clientGone") {
			t.Errorf("want three requests whose client is there:\n%s", log)
		}
	}
	if got[0] != got[1] {
		t.Errorf("parked, %d bytes: %.300s\notherwise, %d bytes: %.300s", len(got[1]), got[1], len(got[0]), got[0])
	}
}

// nowhere is a connection that takes everything.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// A stream that is parked allocates nothing for what it writes, of whatever length: net/http
// does for each chunk of 256 bytes and more.
func TestPark_ChunksAllocateNothing(t *testing.T) {
	c := &chunks{Conn: nowhere{}}
	for _, length := range []int{1, 255, 256, 4096} {
		b := bytes.Repeat([]byte{'x'}, length)
		// Under the race detector pools forget now and then, which is less than once each time.
		if got := testing.AllocsPerRun(1000, func() {
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := c.FlushError(); err != nil {
				t.Fatal(err)
			}
		}); got > 0 {
			t.Errorf("a chunk of %d bytes makes %.0f allocations, want none", length, got)
		}
	}
}

// The connection that comes back is the same one, for the client too.
func TestPark_ConnectionIsUsedAgain(t *testing.T) {
	s := newSlowly(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range 3 {
		s.mu.Lock()
		s.said = []any{text("x")}
		s.mu.Unlock()
		go func() { s.waitParked(t, int64(i+1)); s.say(done) }()
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		if _, _, err := exchanged(ctx, t, client, http.MethodPost, s.url+"/v1/agent/execute", streamed); err != nil {
			t.Fatal(err)
		}
		if reused != (i > 0) {
			t.Errorf("request %d: the connection was used before: %t", i, reused)
		}
	}
}

// What a client has sent meanwhile is its next request.
func TestPark_NextRequestIsThereAlready(t *testing.T) {
	s := newSlowly(t)
	s.say(text("x"))
	c, in := s.ask(t, "HTTP/1.1")
	if _, err := io.WriteString(c, "GET /v1/modes HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	go func() { s.waitParked(t, 1); s.say(done) }()
	for _, want := range []string{"event: turn.completed\n", `"general"`} {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("got %d %s (%v), want %s", res.StatusCode, body, err, want)
		}
	}
}

// A client that hangs up is noticed at once, not with the next event, and its place is free.
func TestPark_HangupIsNoticed(t *testing.T) {
	s := newSlowly(t, func(c *Config) {
		c.Heartbeat = time.Hour
		c.Quotas = quota.Plans{Default: quota.Limits{Streams: 2}}
	})
	s.say(text("x"))
	for i := range 5 {
		a, _ := s.ask(t, "HTTP/1.1")
		b, _ := s.ask(t, "HTTP/1.1")
		s.waitParked(t, int64(2*i+2))
		_ = a.Close()
		_ = b.Close()
		s.waitLogged(t, 2*i+2)
	}
	if log := s.logged.String(); strings.Count(log, "clientGone=true") != 10 {
		t.Errorf("not all of 10 are gone:\n%s", log)
	}
}

// A fault in the middle cuts the connection, so that nobody takes half a stream for a whole
// one. So do a panic, and events that end too early.
func TestPark_FaultCutsTheConnection(t *testing.T) {
	for name, fault := range map[string]any{"error": errors.New("the disk is gone"), "panic": "oh", "no end": io.EOF} {
		t.Run(name, func(t *testing.T) {
			s := newSlowly(t)
			s.say(text("x"))
			_, in := s.ask(t, "HTTP/1.1")
			s.waitParked(t, 1)
			s.say(fault)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(body), `"text":"x"`) {
				t.Errorf("got %v after %s", err, body)
			}
			if log := s.waitLogged(t, 1); !strings.Contains(log, "error=") {
				t.Errorf("got %s", log)
			}
		})
	}
}

// However a stream ends, parked or not, its place is free for the next one.
func TestPark_PlaceIsFreeAgain(t *testing.T) {
	for _, parkAfter := range []time.Duration{0, time.Hour} {
		for _, end := range []any{done, errors.New("the disk is gone"), "oh, a panic"} {
			s := newSlowly(t, func(c *Config) { c.Quotas = quota.Plans{Default: quota.Limits{Streams: 1}} })
			s.parkAfter = parkAfter
			s.say(text("x"))
			s.ask(t, "HTTP/1.1")
			if who := quota.UserOf(agent.Local()); parkAfter == 0 {
				s.waitParked(t, 1)
			} else {
				eventually(t, "the stream is open", func() bool { return s.quotas.streams.Of(who) == 1 })
			}
			s.say(end)
			s.waitLogged(t, 1)
			if n := s.quotas.streams.Of(quota.UserOf(agent.Local())); n != 0 {
				t.Errorf("parked after %s, ended by %v: %d places are taken", parkAfter, end, n)
			}
		}
	}
}

// L-3: a reader that takes nothing is cut off when its time is over.
func TestPark_SlowReaderIsCut(t *testing.T) {
	s := newSlowly(t, func(c *Config) { c.WriteTimeout = 300 * time.Millisecond })
	s.say(text("x"))
	s.ask(t, "HTTP/1.1")
	s.waitParked(t, 1)
	for range 32 { // MB, which no system keeps for a reader
		s.say(text(strings.Repeat("x", 1<<20)))
	}
	if log := s.waitLogged(t, 1); !strings.Contains(log, "clientGone=true") || !strings.Contains(log, "i/o timeout") {
		t.Errorf("got %s", log)
	}
}

// A client that wants its connection closed has it closed behind the last chunk.
func TestPark_ConnectionClose(t *testing.T) {
	s := newSlowly(t)
	s.say(text("x"))
	c, in := s.ask(t, "HTTP/1.1\r\nConnection: close")
	s.waitParked(t, 1)
	s.say(done)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second)) // sooner than net/http gives a connection up
	all, err := io.ReadAll(in)
	if err != nil || !bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")) {
		t.Errorf("got %v after %q", err, all)
	}
}

// Where the header has not promised chunks, something stands between us and the connection,
// or something of the request is unread, the stream stays with net/http.
func TestPark_NotEverywhere(t *testing.T) {
	stays := func(t *testing.T, s *slowly, url string, client *http.Client, method, body string) {
		t.Helper()
		s.say(text("x"))
		go func() { time.Sleep(50 * time.Millisecond); s.say(done) }()
		target := "/v1/agent/execute"
		if method == http.MethodGet {
			s.turns.put(agent.Turn{Key: agent.TurnKey{Org: "local", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
			target = "/v1/sessions/s1/turns/t1/events"
		}
		res, got, err := exchanged(t.Context(), t, client, method, url+target, body)
		if err != nil || !strings.Contains(string(got), "event: turn.completed\n") {
			t.Errorf("got %d %s (%v)", res.StatusCode, got, err)
		}
		if s.parked.Load() != 0 {
			t.Error("the stream was parked")
		}
	}
	t.Run("another server", func(t *testing.T) {
		s := newSlowly(t)
		web := httptest.NewServer(s.Server)
		defer web.Close()
		stays(t, s, web.URL, web.Client(), "POST", streamed)
	})
	t.Run("TLS", func(t *testing.T) {
		s := newSlowly(t)
		web := httptest.NewUnstartedServer(s.Server)
		web.Config.ConnContext = s.HTTPServer("").ConnContext
		web.StartTLS()
		defer web.Close()
		stays(t, s, web.URL, web.Client(), "POST", streamed)
	})
	t.Run("an unread body", func(t *testing.T) {
		s := newSlowly(t)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		stays(t, s, s.url, client, "GET", "GET /v1/modes HTTP/1.1\r\nHost: localhost\r\n\r\n")
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		s := newSlowly(t)
		s.say(text("x"))
		_, in := s.ask(t, "HTTP/1.0")
		go func() { time.Sleep(50 * time.Millisecond); s.say(done) }()
		all, err := io.ReadAll(in)
		if err != nil || s.parked.Load() != 0 || !bytes.HasSuffix(all, []byte("}\n\n")) {
			t.Errorf("parked %d times; %v after %s", s.parked.Load(), err, all)
		}
	})
}

// Streams that are parked end with the server: with what there is to tell, or cut short.
// Those that come later are not parked.
func TestPark_End(t *testing.T) {
	s := newSlowly(t)
	s.say(text("x"))
	_, silent := s.ask(t, "HTTP/1.1")
	s.waitParked(t, 1)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.EndParked(short); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(silent, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that goes on ends with %v", err)
	}
	_, late := s.ask(t, "HTTP/1.1\r\nConnection: close")
	time.Sleep(50 * time.Millisecond)
	s.say(done)
	if all, err := io.ReadAll(late); err != nil || !bytes.Contains(all, []byte("turn.completed")) || s.parked.Load() != 1 {
		t.Errorf("parked %d times; %v after %s", s.parked.Load(), err, all)
	}
}

// A stream of which the end is there when the server closes gets it.
func TestPark_EndIsTold(t *testing.T) {
	for range 20 { // since one of two things is looked at first
		s := newSlowly(t)
		s.say(text("x"))
		_, in := s.ask(t, "HTTP/1.1\r\nConnection: close")
		s.waitParked(t, 1)
		// Both happen before the stream waits for either.
		s.mu.Lock()
		s.idle = func() {
			s.said = append(s.said, done)
			close(s.again)
			s.again = make(chan struct{})
			s.lot.end()
		}
		s.mu.Unlock()
		s.say(text("y"))
		if all, err := io.ReadAll(in); err != nil || !bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")) {
			t.Fatalf("%v after %s", err, all)
		}
	}
}

// A connection that was given back and not used since does not hold up the end of the
// server, nor is one given back to a server that goes down.
func TestPark_EndWaitsForNoConnection(t *testing.T) {
	for _, draining := range []bool{false, true} {
		s := newSlowly(t)
		s.say(text("x"))
		c, in := s.ask(t, "HTTP/1.1")
		s.waitParked(t, 1)
		if draining {
			s.Drain()
		}
		s.say(done)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		if !draining {
			eventually(t, "the connection is given back", func() bool { return s.conns.Load() == 2 })
			short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.EndParked(short); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second)) // net/http would wait for five
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("draining %t: the connection is open: %v", draining, err)
		}
	}
}

// Many clients that read, hang up and are done at the same time leave nothing behind.
func TestPark_Many(t *testing.T) {
	s := newSlowly(t)
	s.say(text("x"))
	var all sync.WaitGroup
	for i := range 60 {
		c, in := s.ask(t, "HTTP/1.1")
		all.Go(func() {
			if i%3 == 0 {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_ = c.Close()
				return
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "turn.completed") {
				t.Errorf("%d: %v after %s", i, err, body)
			}
		})
	}
	for range 30 {
		s.say(text("x"))
		time.Sleep(time.Millisecond)
	}
	s.say(done)
	all.Wait()
	s.waitLogged(t, 60)
	eventually(t, "nothing is watched", func() bool {
		h := &s.lot.hangups
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.poll == nil && len(h.watched) == 0
	})
}
