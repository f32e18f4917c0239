package streams

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/server"
)

// patience is how long a client may take nothing in these tests.
const patience = 500 * time.Millisecond

// large is a turn whose stream is longer than every buffer on its way, so that a reader
// who takes nothing holds it up.
func large() llmtest.Reply {
	reply := llmtest.Reply{}
	for range 20 {
		reply.Deltas = append(reply.Deltas, strings.Repeat("x", 32<<10))
	}
	return reply
}

// L-3: a reader who takes nothing, and one who takes a byte now and then, are cut; the turn
// and its other readers do not notice; and both find the whole stream when they are back. That
// they are cut after 30 s is TestConnection_ReaderThatStallsIsCut in package server.
func TestSlow_ReadersAreCutAndComeBack(t *testing.T) {
	ended := map[string]chan struct{}{"stalled": make(chan struct{}), "dripping": make(chan struct{})}
	r := newRig(t, options{
		server: server.Config{WriteTimeout: patience},
		over: func(id string) {
			if c := ended[id]; c != nil {
				close(c)
			}
		},
	}, large())
	stalled, dripping := r.open(t, "stalled"), r.open(t, "dripping")
	dripped := make(chan []byte)
	go func() {
		var got []byte
		for {
			select {
			case <-ended["dripping"]:
				dripped <- got
				return
			case <-time.After(patience / 20):
				b := make([]byte, 1)
				n, _ := dripping.Read(b)
				got = append(got, b[:n]...)
			}
		}
	}()

	began := time.Now()
	whole, _ := r.read(t, r.request(t, "POST", "/v1/agent/execute", execute), -1)
	t.Logf("L-3: the other reader had its %d bytes after %s, with two beside it that held theirs up", len(whole), time.Since(began).Round(time.Millisecond))
	if !strings.Contains(whole, "event: turn.completed") {
		t.Fatalf("the other reader has got %d bytes and no end", len(whole))
	}
	for name, c := range ended {
		select {
		case <-c:
		case <-time.After(30 * time.Second):
			t.Fatalf("the %s reader is not cut", name)
		}
	}
	for name, got := range map[string]string{"stalled": received(stalled, nil), "dripping": received(dripping, <-dripped)} {
		// What is held for a reader, here and in the system, is bounded.
		if len(got) >= len(whole) || len(got) > 1<<20 {
			t.Errorf("the %s reader was sent %d of %d bytes", name, len(got), len(whole))
		}
		t.Logf("L-3: the %s reader was sent %d of %d bytes and cut", name, len(got), len(whole))
		seen := complete(got)
		if seen == "" {
			t.Errorf("the %s reader has got nothing", name)
		}
		more, _ := r.read(t, r.request(t, "GET", "/v1/sessions/s/turns/t/events", "", "Last-Event-ID", last(seen, "\nid: ")), -1)
		if seen+more != whole {
			t.Errorf("the %s reader: %d bytes and, resumed, %d are not the %d of the whole", name, len(seen), len(more), len(whole))
		}
	}
}

// open starts the turn, or joins it, over a connection with a small buffer, and reads
// nothing of it.
func (r *rig) open(t *testing.T, id string) net.Conn {
	t.Helper()
	c := r.dial(t)
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if err := r.request(t, "POST", "/v1/agent/execute", execute, "X-Request-Id", id).Write(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// dial opens a connection for the length of the test.
func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// received returns the body as far as it has arrived; head has been read already.
func received(c net.Conn, head []byte) string {
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(head), c)), nil)
	if err != nil {
		return ""
	}
	body, _ := io.ReadAll(resp.Body) // it breaks off
	return string(body)
}
