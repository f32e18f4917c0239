package bus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/secret"
)

// Config says how a node reaches the others. Servers, Hub and Log are required.
type Config struct {
	// Servers are the addresses of the NATS servers, separated by commas, with user and
	// password or a token where they are wanted: nats://a:4222,tls://u:p@b:4222.
	Servers secret.Text
	// Prefix begins every subject; default aptix. Nodes of different prefixes do not meet,
	// although they share a NATS.
	Prefix string
	// Files are what else the servers ask for.
	Files Files
	// Hub has the turns that run here.
	Hub *events.Hub
	Log *slog.Logger
	// AnswerTime bounds how long Follow waits for the node that has a turn, and is how long
	// an answer is waited for before it is asked for again; default 250 ms.
	AnswerTime time.Duration
	// Silence is how long nothing may be heard of an owner before the copy of its Log is
	// given up, and how long an owner goes on sending to a node that does not ask again;
	// default 5 s.
	Silence time.Duration
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "aptix"
	}
	if c.AnswerTime <= 0 {
		c.AnswerTime = 250 * time.Millisecond
	}
	if c.Silence <= 0 {
		c.Silence = 5 * time.Second
	}
	return c
}

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func (c Config) check() error {
	switch {
	case c.Hub == nil || c.Log == nil:
		return errors.New("bus: Hub and Log are required")
	case !prefixPattern.MatchString(c.Prefix):
		return fmt.Errorf("the prefix %q of the NATS subjects: want letters, digits, _ and -, in parts between dots", c.Prefix)
	}
	return checkServers(c.Servers)
}

// Bus is a node among others. Its methods may be called from many goroutines.
type Bus struct {
	Config
	node string // unique to this process
	nats *nats.Conn
	out  publisher

	moves     chan agent.TurnKey // to be told to the others
	stopping  chan struct{}
	work      sync.WaitGroup
	dropped   atomic.Int64 // hints that did not go out
	malformed complaint
	troubles  complaint // of the connection

	mu        sync.Mutex // guards what follows
	closed    bool
	listeners []func(agent.TurnKey)
	replicas  map[agent.TurnKey]*replica
	inboxes   map[string]*replica // by the subject that they are sent to
	made      int                 // replicas, ever
	feeds     map[agent.TurnKey]*feed
}

// publisher sends messages; a test may lose some on the way.
type publisher interface {
	PublishMsg(m *nats.Msg) error
}

// Open joins the others. It does not fail because no server answers: the bus connects as
// soon as one does, and until then it is as if there were no other nodes. It fails when
// the configuration cannot be right.
func Open(c Config) (*Bus, error) {
	return open(c, func(n *nats.Conn) publisher { return n })
}

func open(c Config, wrap func(*nats.Conn) publisher) (*Bus, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Bus{
		Config: c, node: rand.Text(),
		moves: make(chan agent.TurnKey, maxMoves), stopping: make(chan struct{}),
		malformed: complaint{log: c.Log, what: "messages of other nodes that cannot be read"},
		troubles:  complaint{log: c.Log, what: "trouble with NATS"},
		replicas:  map[agent.TurnKey]*replica{}, inboxes: map[string]*replica{}, feeds: map[agent.TurnKey]*feed{},
	}
	var err error
	if b.nats, err = b.connect(); err != nil {
		return nil, err
	}
	b.out = wrap(b.nats)
	if err := b.subscribe(); err != nil {
		b.nats.Close()
		return nil, err
	}
	b.work.Go(b.tellMoves)
	return b, nil
}

// A message that a node has not looked at yet waits with so many others, in so many
// bytes, at most; one more is lost. It is as if it had been lost on the way.
const (
	maxPending      = 1 << 16
	maxPendingBytes = 64 << 20
)

// subscribe makes the few subscriptions that a node has, however many turns it follows
// and runs. Messages that come in are looked at one after the other, and nothing that is
// done with them waits for anything.
func (b *Bus) subscribe() error {
	for subject, handle := range map[string]nats.MsgHandler{
		b.subject("follow"):          b.asked,
		b.subject("follow", b.node):  b.asked,
		b.subject("to", b.node, "*"): b.received,
		b.subject("moved"):           b.told,
	} {
		s, err := b.nats.Subscribe(subject, handle)
		if err == nil {
			err = s.SetPendingLimits(maxPending, maxPendingBytes)
		}
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	return nil
}

func (b *Bus) subject(parts ...string) string {
	return b.Prefix + "." + strings.Join(parts, ".")
}

// Connected reports whether a NATS server can be reached at the moment. The node works
// without, but for the delay with which it learns what others do.
func (b *Bus) Connected() bool { return b.nats.IsConnected() }

// Close leaves the others and closes all copies. Those who follow a turn of this node
// are told that there is nothing more to come, so close it behind the last turn.
func (b *Bus) Close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed = true
	close(b.stopping)
	b.mu.Unlock()
	b.work.Wait()
	if b.Connected() {
		_ = b.nats.FlushTimeout(time.Second) // who misses the last word finds out by the silence
	}
	b.nats.Close()
}

// send encodes a message and sends it; an empty reply is none. What cannot be sent is lost, which is one of the
// things that happen to messages.
func (b *Bus) send(subject, reply string, m any) {
	data, err := encode(m)
	if err == nil {
		err = b.out.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data})
	}
	if err != nil && b.Connected() {
		b.troubles.note(err)
	}
}

// unread notes that a message cannot be read. One of another version is no fault.
func (b *Bus) unread(err error) {
	if !errors.Is(err, errVersion) {
		b.malformed.note(err)
	}
}
