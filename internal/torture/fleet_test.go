package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/natstest"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/store/postgres"
)

var (
	troubleTime = flag.Duration("torture.for", 10*time.Second, "how long three nodes are troubled")
	outage      = flag.Duration("torture.outage", 5*time.Second, "how long NATS is stopped")
	failovers   = flag.Int("torture.failovers", 1, "how often the primary is killed")
	restarts    = flag.Int("torture.restarts", 3, "how many nodes are restarted, one after the other")
)

var cluster pgtest.Cluster

// lease is how long a node of these campaigns owns a turn, and poll how often it looks for
// what other nodes have done.
const (
	lease = 2 * time.Second
	poll  = 250 * time.Millisecond
)

// fleet is a campaign against several nodes on one database.
type fleet struct {
	*campaign
	dsn     string // without a gate before it
	nats    *natstest.Server
	members []*member
}

// member is a node, with gates to what it works with.
type member struct {
	*node
	store, bus *gate
	out        atomic.Bool // of the rotation
	faults     []string
}

// newFleet starts so many nodes. Socket tells where PostgreSQL listens.
func newFleet(t testing.TB, n int, dsn string, socket func() string) *fleet {
	t.Helper()
	f := &fleet{campaign: newCampaign(t), dsn: dsn}
	// A node that hangs is not waited for for ever: any other one will do.
	f.client.Timeout = 4 * lease
	f.nats = natstest.Start(t)
	bus := strings.TrimPrefix(f.nats.URL(), "nats://")
	name := dsn[strings.Index(dsn, "dbname=")+len("dbname="):]
	name, _, _ = strings.Cut(name, " ")
	for range n {
		m := &member{
			store: newGate(t, func() (string, string) { return "unix", socket() }),
			bus:   newGate(t, func() (string, string) { return "tcp", bus }),
		}
		m.node = newNode(t, f.model, f.ledger,
			fmt.Sprintf("APTIX_DATABASE=postgres://aptix@%s/%s?sslmode=disable", m.store.address(), name),
			"APTIX_NATS=nats://"+m.bus.address())
		settings := fmt.Sprintf("cluster: {lease: %s, poll: %s}\n", lease, poll)
		if err := os.WriteFile(filepath.Join(m.dir, "aptix.yaml"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		f.members = append(f.members, m)
		m.start("")
	}
	f.node = f.members[0].node
	return f
}

// url implements site: any node will do that is not out of the rotation.
func (f *fleet) url(path string) string {
	for _, i := range rand.Perm(len(f.members)) {
		if !f.members[i].out.Load() {
			return f.members[i].url(path)
		}
	}
	return f.members[0].url(path)
}

// settle waits for the last turns and checks everything.
func (f *fleet) settle(what string) {
	f.t.Helper()
	close(f.stop)
	f.finish(60 * time.Second)
	s, err := postgres.Open(f.t.Context(), secret.New(f.dsn), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			f.t.Error(err)
		}
	}()
	if err := f.waitUntilOver(s); err != nil {
		f.t.Error(err)
	}
	f.report(what, s)
}

// waitUntilOver waits until no turn is under way any more.
func (f *fleet) waitUntilOver(s *postgres.Store) error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		unfinished, err := s.Unfinished(f.t.Context())
		if err != nil || len(unfinished) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("60 s after the last fault %d turns are under way, such as %s", len(unfinished), unfinished[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fault is something that happens to a node, and passes.
type fault struct {
	name string
	do   func(*member) error
}

// between returns a time between two.
func between(least, most time.Duration) time.Duration {
	return least + rand.N(most-least)
}

var faults = []fault{
	{"killed", func(m *member) error {
		m.kill()
		time.Sleep(between(0, time.Second))
		_, err := m.launch("")
		return err
	}},
	{"paused for three leases", func(m *member) error {
		if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(3 * lease)
		return m.cmd.Process.Signal(syscall.SIGCONT)
	}},
	{"cut off from PostgreSQL", func(m *member) error {
		m.store.close()
		time.Sleep(between(lease/10, 2*lease))
		m.store.open()
		return nil
	}},
	{"stalled before PostgreSQL", func(m *member) error {
		m.store.stall()
		time.Sleep(between(lease/10, 3*lease))
		m.store.open()
		return nil
	}},
	{"cut off from NATS", func(m *member) error {
		m.bus.close()
		time.Sleep(between(lease/10, 2*lease))
		m.bus.open()
		return nil
	}},
	{"stalled before NATS", func(m *member) error {
		m.bus.stall()
		time.Sleep(between(lease/10, 2*lease))
		m.bus.open()
		return nil
	}},
}

// trouble lets one fault after the other happen to a node until the time is over.
func (m *member) trouble(until time.Time) error {
	for {
		time.Sleep(between(lease/2, 2*lease))
		if !time.Now().Before(until) {
			return nil
		}
		f := faults[rand.IntN(len(faults))]
		m.faults = append(m.faults, f.name)
		if err := f.do(m); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
}

// Three nodes are killed, paused and cut off, all at the same time.
func TestFleet_Trouble(t *testing.T) {
	f := newFleet(t, 3, cluster.Database(t), cluster.Socket)
	f.employ(f)
	s := &switchers{c: f.campaign, at: f}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { s.work(ctx) })

	until := time.Now().Add(*troubleTime)
	var troubles sync.WaitGroup
	for _, m := range f.members {
		troubles.Go(func() {
			if err := m.trouble(until); err != nil {
				t.Error(err)
			}
		})
	}
	troubles.Wait()
	cancel()
	others.Wait()
	f.settle(fmt.Sprintf("trouble for %s", *troubleTime))
	counts := map[string]int{}
	refused := 0
	for _, m := range f.members {
		for _, name := range m.faults {
			counts[name]++
		}
		refused += m.stderr.count("let go of a turn")
	}
	t.Logf("faults: %v; %d times a node found that its turn was another's; %d accesses to the modes of %d sessions, %d of them lost, in an order",
		counts, refused, s.accesses, s.sessions, s.lost)
}

// The primary is killed and its standby takes over.
func TestFleet_Failover(t *testing.T) {
	pair := pgtest.NewPair(t)
	f := newFleet(t, 2, pair.DSN(), pair.Socket)
	f.employ(f)
	var back []time.Duration
	for range *failovers {
		time.Sleep(between(100*time.Millisecond, time.Second))
		began := time.Now()
		pair.Fail()
		for _, m := range f.members {
			m.store.cut() // what held the address of the primary now holds the new one's
		}
		back = append(back, f.served(began))
		pair.Mend()
	}
	f.dsn = pair.DSN()
	f.settle(fmt.Sprintf("%d failovers", *failovers))
	slices.Sort(back)
	t.Logf("a turn was served again after %s (median), %s at the latest", back[len(back)/2].Round(time.Millisecond), back[len(back)-1].Round(time.Millisecond))
}

// served returns how long after a moment a new turn is answered.
func (f *fleet) served(since time.Time) time.Duration {
	f.t.Helper()
	w := &worker{site: f, client: f.client, session: fmt.Sprintf("probe%d", since.UnixNano())}
	for time.Since(since) < 30*time.Second {
		status, _, err := w.call(f.t.Context(), http.MethodPost, "/v1/agent/execute", map[string]any{"sessionId": w.session, "turnId": "t1", "instruction": "plan=talk"})
		if err == nil && status == http.StatusOK {
			return time.Since(since)
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Errorf("30 s after the primary was killed no turn is served; a node says:\n%s", f.node.stderr.tail())
	return time.Since(since)
}

// NATS is stopped, and comes back.
func TestFleet_WithoutNATS(t *testing.T) {
	f := newFleet(t, 3, cluster.Database(t), cluster.Socket)
	f.employ(f)
	time.Sleep(time.Second)
	f.nats.Stop()
	late := f.lateness(time.Now().Add(*outage))
	f.nats.Again(t)
	time.Sleep(time.Second)
	f.settle(fmt.Sprintf("NATS stopped for %s", *outage))
	if len(late) == 0 {
		return
	}
	slices.Sort(late)
	median, most := late[len(late)/2], late[len(late)-1]
	t.Logf("the end of a turn reached its readers on another node %s after its sender (median of %d), %s at most; nodes look every %s",
		median.Round(time.Millisecond), len(late), most.Round(time.Millisecond), poll)
	if most > 5*time.Second {
		t.Error("that is later than 5 s")
	}
}

// lateness runs turns on one node, follows them on the next one, and returns how long after
// the sender each reader has heard of the end.
func (f *fleet) lateness(until time.Time) []time.Duration {
	f.t.Helper()
	var late []time.Duration
	for n := 0; n == 0 || time.Now().Before(until); n++ {
		session := fmt.Sprintf("followed%d", n)
		owner, other := f.members[n%len(f.members)], f.members[(n+1)%len(f.members)]
		var answered, heard time.Time
		var both sync.WaitGroup
		both.Go(func() {
			w := &worker{site: owner, client: f.client, session: session}
			status, text, err := w.call(f.t.Context(), http.MethodPost, "/v1/agent/execute", map[string]any{"sessionId": session, "turnId": "t1", "instruction": "plan=long"})
			if err != nil || status != http.StatusOK {
				f.t.Errorf("%d %s (%v)", status, text, err)
			}
			answered = time.Now()
		})
		both.Go(func() {
			w := &worker{site: other, client: f.client, session: session}
			res, err := w.follow(f.t.Context(), "t1")
			if err != nil {
				f.t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			for _, e := range parse(res.Body) {
				if e.kind == "turn.completed" {
					heard = time.Now()
				}
			}
			if heard.IsZero() {
				f.t.Errorf("the stream of %s ended without its turn", session)
			}
		})
		both.Wait()
		if f.t.Failed() {
			break
		}
		late = append(late, heard.Sub(answered))
	}
	return late
}

// One node after the other is taken out of the rotation, stopped and started again.
func TestFleet_RollingRestart(t *testing.T) {
	f := newFleet(t, 3, cluster.Database(t), cluster.Socket)
	f.employ(f)
	for n := range *restarts {
		m := f.members[n%len(f.members)]
		time.Sleep(300 * time.Millisecond)
		m.out.Store(true)
		time.Sleep(50 * time.Millisecond)
		if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatalf("%v; the node said:\n%s", err, m.stderr.tail())
		}
		select {
		case <-m.dead:
		case <-time.After(40 * time.Second):
			t.Fatalf("the node has not stopped after 40 s:\n%s", m.stderr.tail())
		}
		m.start("")
		m.out.Store(false)
	}
	f.settle(fmt.Sprintf("%d nodes restarted", *restarts))
	for _, w := range f.workers {
		if n := len(w.broken); n > 0 {
			t.Errorf("%s: %d requests broke off, such as by: %v", w.session, n, w.broken[0])
		}
	}
}

// What one, two and three nodes do on one database, and what of the processors PostgreSQL
// takes: 64 clients, each with a session of its own, and a model that answers at once.
func BenchmarkFleet(b *testing.B) {
	for nodes := 1; nodes <= 3; nodes++ {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			durable := &pgtest.Cluster{Durable: true}
			b.Cleanup(func() {
				if err := durable.Stop(); err != nil {
					b.Error(err)
				}
			})
			f := newFleet(b, nodes, durable.Database(b), durable.Socket)
			var next atomic.Int64
			var clients sync.WaitGroup
			b.ResetTimer()
			for c := range 64 {
				w := &worker{site: f.members[c%nodes], client: f.client, session: fmt.Sprintf("b%d", c)}
				clients.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						status, text, err := w.call(b.Context(), http.MethodPost, "/v1/agent/execute",
							map[string]any{"sessionId": w.session, "turnId": fmt.Sprintf("t%d", n), "instruction": "plan=quick"})
						if err != nil || status != http.StatusOK {
							b.Errorf("%d %s (%v)", status, text, err)
							return
						}
					}
				})
			}
			clients.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}
