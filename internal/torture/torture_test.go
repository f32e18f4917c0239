package torture

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/invariants"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

var (
	cycles   = flag.Int("torture.cycles", 8, "how often the process is killed at a random time")
	hits     = flag.Int("torture.hits", 1, "how often it dies at each point")
	sessions = flag.Int("torture.sessions", 32, "how many sessions are at work")
)

// TestKill kills the server at random times.
func TestKill(t *testing.T) {
	c := begin(t)
	for range *cycles {
		c.node.start("")
		time.Sleep(time.Duration(5+rand.IntN(145)) * time.Millisecond)
		c.node.kill()
	}
	c.end(fmt.Sprintf("%d kills at random times", *cycles))
}

// TestFailpoints kills the server at each point of a turn.
func TestFailpoints(t *testing.T) {
	c := begin(t)
	var never []failpoint.Point
	for _, p := range failpoint.Points() {
		passed := 0
		for n := range *hits {
			at := 1 + n%5
			if strings.HasPrefix(string(p), "resume.") {
				at = 1 // a start may have no more than one turn to take up
			}
			if c.node.start(fmt.Sprintf("%s:%d", p, at)) {
				select {
				case <-c.node.dead:
				case <-time.After(10 * time.Second):
					c.node.kill()
					continue
				}
			}
			passed++
		}
		if passed < *hits {
			never = append(never, p)
		}
	}
	if len(never) > 0 {
		t.Errorf("not every armed process died at %v: no turn passed there in time", never)
	}
	c.end(fmt.Sprintf("%d points, each %d times", len(failpoint.Points()), *hits))
}

// campaign is a server under load, and what its clients know.
type campaign struct {
	t        *testing.T
	node     *node
	provider *provider
	workers  []*worker
	running  sync.WaitGroup
	stop     chan struct{}
	cancel   context.CancelFunc
	began    time.Time
}

func begin(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{t: t, provider: &provider{}, stop: make(chan struct{}), began: time.Now()}
	model := httptest.NewServer(c.provider)
	t.Cleanup(model.Close)
	c.node = newNode(t, model.URL)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	t.Cleanup(func() { cancel(); c.running.Wait() })

	transport := &http.Transport{MaxIdleConnsPerHost: *sessions, DisableKeepAlives: false}
	t.Cleanup(transport.CloseIdleConnections)
	c.node.start("")
	for i := range *sessions {
		w := &worker{node: c.node, client: &http.Client{Transport: transport}, session: fmt.Sprintf("s%d", i), rng: rand.New(rand.NewPCG(uint64(i), 1))}
		status, body, err := w.call(ctx, http.MethodPost, "/v1/sessions", map[string]any{"sessionId": w.session,
			"tools": []any{map[string]any{"type": "function", "name": "read_file", "description": "Reads.", "parameters": map[string]any{"type": "object"}}}})
		if err != nil || status != http.StatusCreated {
			t.Fatalf("create session: %d %s (%v)", status, body, err)
		}
		c.workers = append(c.workers, w)
		c.running.Go(func() { w.work(ctx, c.stop) })
	}
	time.Sleep(20 * time.Millisecond)
	c.node.kill()
	return c
}

// end lets the server live until every turn has ended, and checks everything.
func (c *campaign) end(what string) {
	c.t.Helper()
	close(c.stop)
	c.node.start("")
	finished := make(chan struct{})
	go func() { c.running.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(20 * time.Second):
		c.cancel()
		c.t.Errorf("turns have not ended 60 s after the last start; the server says:\n%s", tail(c.node.stderr.Bytes()))
	}
	c.node.kill()
	turns, acknowledged, ended := c.check()
	c.t.Logf("%s under %d sessions in %s: %d turns sent, %d acknowledged, %d in the store, %d model calls, slowest start %s",
		what, len(c.workers), time.Since(c.began).Round(time.Millisecond), turns, acknowledged, ended, c.provider.asks.Load(), slices.Max(c.node.ready).Round(time.Millisecond))
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// check holds the data file to the invariants and to what the clients were told.
func (c *campaign) check() (turns, acknowledged, kept int) {
	t := c.t
	ctx := t.Context()
	integrity(t, c.node.database())
	s, err := sqlite.Open(ctx, c.node.database(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ran := c.ledger()
	const org = agent.OrgID("local")
	for _, w := range c.workers {
		for _, wrong := range w.wrong {
			t.Error(wrong)
		}
		id := agent.SessionID(w.session)
		session, err := s.Session(ctx, org, id)
		if err != nil {
			t.Fatal(err)
		}
		changes := all(t, func(p store.Page) ([]agent.ModeChange, string, error) { return s.ModeHistory(ctx, org, id, p) })
		for _, wrong := range invariants.History(session, changes) {
			t.Error(wrong)
		}
		stored := map[string]agent.Turn{}
		for _, turn := range all(t, func(p store.Page) ([]agent.Turn, string, error) { return s.Turns(ctx, org, id, p) }) {
			kept++
			stored[string(turn.Key.Turn)] = turn
			steps, err := s.Steps(ctx, turn.Key)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range invariants.Journal(turn, steps) {
				t.Error(wrong)
			}
			if !turn.State.Terminal() {
				t.Errorf("turn %s is %s at the end", turn.Key, turn.State)
			}
			for _, step := range steps {
				if f := step.ToolFinished; f != nil && f.Result.Name == "ledger_append" && f.Result.Code == agent.OutcomeOK {
					line := fmt.Sprintf("ledger_append %s/%s/%s", id, turn.Key.Turn, f.Result.CallID)
					if ran[line] != 1 {
						t.Errorf("%s ran %d times, and the model was told that it ran", line, ran[line])
					}
				}
			}
		}
		for _, sent := range w.turns {
			turns++
			turn, ok := stored[sent.id]
			if sent.acknowledged {
				acknowledged++
				if !ok {
					t.Errorf("turn %s/%s was acknowledged and is lost", id, sent.id)
				}
			}
			if ok && sent.state != "" && sent.state != string(turn.State) {
				t.Errorf("turn %s was told to be %s and is %s", turn.Key, sent.state, turn.State)
			}
			if sent.state == "completed" && sent.response != nil && !bytes.Equal(sent.response, turn.Response) {
				t.Errorf("turn %s: the answer was %s and is %s", turn.Key, sent.response, turn.Response)
			}
		}
	}
	// A step of a plan asks for the tool once. A model that was asked again, because its
	// answer was lost, gives the call another id; what was dispatched for the lost one
	// would show here.
	steps := map[string]int{}
	for line, n := range ran {
		if strings.HasPrefix(line, "ledger_append ") {
			step := line[:strings.LastIndex(line, "-")]
			if steps[step] += n; steps[step] > 1 {
				t.Errorf("%s: the tool ran %d times", step, steps[step])
			}
		}
	}
	return turns, acknowledged, kept
}

// all reads a list to its end.
func all[T any](t *testing.T, page func(store.Page) ([]T, string, error)) (out []T) {
	t.Helper()
	p := store.Page{Limit: store.MaxLimit}
	for {
		part, next, err := page(p)
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, part...); next == "" {
			return out
		}
		p.Cursor = next
	}
}

// ledger returns how often each call ran.
func (c *campaign) ledger() map[string]int {
	c.t.Helper()
	data, err := os.ReadFile(c.node.ledger())
	if err != nil {
		c.t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(data)) {
		ran[strings.TrimSpace(line)]++
	}
	return ran
}

func integrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var said string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
		t.Errorf("integrity check: %s (%v)", said, err)
	}
	var orphans int
	if err := db.QueryRow("SELECT count(*) FROM pragma_foreign_key_check").Scan(&orphans); err != nil || orphans != 0 {
		t.Errorf("%d rows refer to nothing (%v)", orphans, err)
	}
}
