package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/natstest"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}

// patience is how long a test waits for something that must come.
const patience = 30 * time.Second

// node is a bus with what the tests look at.
type node struct {
	*Bus
	wire *wire
}

// start runs a node that reaches the others by these servers.
func start(t testing.TB, servers string, changes ...func(*Config)) *node {
	t.Helper()
	c := Config{
		Servers: secret.New(servers), Hub: events.NewHub(), Log: slog.New(slog.DiscardHandler),
		AnswerTime: 2 * time.Second, Silence: 3 * time.Second, // a slow machine is not what is tested
	}
	for _, change := range changes {
		change(&c)
	}
	n := &node{wire: &wire{}}
	var err error
	n.Bus, err = open(c, func(conn *nats.Conn) publisher { n.wire.to = conn; return n.wire })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// pair runs a server and two nodes.
func pair(t testing.TB, changes ...func(*Config)) (owner, reader *node) {
	t.Helper()
	url := natstest.Start(t).URL()
	owner, reader = start(t, url, changes...), start(t, url, changes...)
	connected(t, owner, reader)
	return owner, reader
}

func connected(t testing.TB, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, "a node is connected", n.Connected)
		if err := n.nats.Flush(); err != nil { // its subscriptions have arrived
			t.Fatal(err)
		}
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

// wire is a connection on which messages may be lost, doubled and reordered.
type wire struct {
	to publisher

	mu      sync.Mutex // guards what follows
	sent    int
	dead    bool // everything is lost
	faults  *rand.Rand
	percent int
	held    func() error // a message that the next one overtakes
}

// disturb makes each fault happen to so many messages of a hundred.
func (w *wire) disturb(percent int, seed uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.percent, w.faults = percent, rand.New(rand.NewPCG(seed, 0))
}

func (w *wire) kill(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = dead
}

// count returns how many messages were to be sent.
func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// PublishMsg implements publisher.
func (w *wire) PublishMsg(m *nats.Msg) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	send := func() error { return w.to.PublishMsg(m) }
	happens := func() bool { return w.faults != nil && w.faults.IntN(100) < w.percent }
	switch {
	case w.dead, happens():
		return nil
	case happens():
		if err := send(); err != nil {
			return err
		}
	case w.held == nil && happens():
		w.held = send
		return nil
	}
	err := send()
	if w.held != nil {
		_ = w.held()
		w.held = nil
	}
	return err
}

// turn is a turn as its owner has it: what it appends is what readers must see.
type turn struct {
	key    agent.TurnKey
	log    *events.Log
	events []agent.Event
}

func begin(owner *node, key agent.TurnKey, first int64) *turn {
	return &turn{key: key, log: owner.Hub.Open(key, first)}
}

// show appends an event of the kind that its number asks for.
func (u *turn) show() { u.append(sample(u.key, u.log.Next())) }

func (u *turn) append(e agent.Event) {
	u.events = append(u.events, e)
	u.log.Append(e)
}

// end shows the end and closes the log.
func (u *turn) end() {
	u.append(agent.Event{Type: agent.EventTurnCompleted, Sequence: u.log.Next(), SessionID: u.key.Session, TurnID: u.key.Turn,
		Response: json.RawMessage(`{ "text": "<b> & \u00e9\u2028" }`)})
	u.log.Close()
}

// sample is an event as turns have it: mostly text, of any kind, now and then another.
func sample(k agent.TurnKey, n int64) agent.Event {
	e := agent.Event{Type: agent.EventTextDelta, Sequence: n, SessionID: k.Session, TurnID: k.Turn}
	switch ms := n; n % 10 {
	case 3:
		e.Type, e.ToolCallID, e.Name, e.Outcome, e.Ms = agent.EventToolFinished, "c1", "search", "ok", &ms
	case 6:
		e.Type, e.ModeSwitch = agent.EventModeChanged, &agent.ModeSwitch{PreviousMode: "a", Mode: "b", Branch: true, Reason: "r"}
	case 8:
		e.Type, e.Fault = agent.EventTurnFailed, &agent.Fault{Kind: agent.KindRateLimited, Message: "m", Violations: []agent.Violation{{Rule: "r"}}, RetryAfter: 3}
	default:
		e.Text = fmt.Sprintf("<%d> & é\u2028\x00\"\\", n)
	}
	return e
}

// all reads a copy to its end.
func all(t testing.TB, log *events.Log, after int64) (out []agent.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for e, err := range log.From(ctx, after) {
		if err != nil {
			t.Errorf("the copy does not end, after %d events: %v", len(out), err)
			return out
		}
		out = append(out, e)
	}
	return out
}

// must returns a copy that must be there.
func must(t testing.TB, n *node, key agent.TurnKey, after int64) *events.Log {
	t.Helper()
	log, ok := n.Follow(t.Context(), key, after)
	if !ok {
		t.Fatalf("nobody has turn %s", key)
	}
	return log
}

// await waits until a copy has everything below a sequence.
func await(t testing.TB, log *events.Log, next int64) {
	t.Helper()
	eventually(t, fmt.Sprint("a copy goes up to ", next), func() bool { return log.Next() >= next })
}

func same(t testing.TB, got, want []agent.Event) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp.Diff takes its time, even where there is nothing to tell
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}
