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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/invariants"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

var (
	cycles   = flag.Int("torture.cycles", 8, "how often the process is killed at a random time")
	hits     = flag.Int("torture.hits", 1, "how often it dies at each point")
	sessions = flag.Int("torture.sessions", 32, "how many sessions are at work")
)

func TestMain(m *testing.M) {
	mcptest.Main() // this binary is an MCP server, too
	os.Exit(cluster.Around(m).Run())
}

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
	t        testing.TB
	node     *node // the first, or only one
	ledger   string
	provider *provider
	model    string
	workers  []*worker
	client   *http.Client
	running  sync.WaitGroup
	stop     chan struct{}
	ctx      context.Context // the workers'
	cancel   context.CancelFunc
	began    time.Time
}

// begin begins a campaign against one node.
func begin(t *testing.T) *campaign {
	t.Helper()
	c := newCampaign(t)
	c.node = newNode(t, c.model, c.ledger)
	c.node.start("")
	c.employ(c.node)
	time.Sleep(20 * time.Millisecond)
	c.node.kill()
	return c
}

// newCampaign returns a campaign that has a model and a ledger, and no server yet.
func newCampaign(t testing.TB) *campaign {
	t.Helper()
	c := &campaign{t: t, provider: &provider{}, stop: make(chan struct{}), began: time.Now(), ledger: filepath.Join(t.TempDir(), "ledger")}
	model := httptest.NewServer(c.provider)
	t.Cleanup(model.Close)
	c.model = model.URL
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx, c.cancel = ctx, cancel
	t.Cleanup(func() { cancel(); c.running.Wait() })
	transport := &http.Transport{MaxIdleConnsPerHost: *sessions}
	t.Cleanup(transport.CloseIdleConnections)
	c.client = &http.Client{Transport: transport}
	return c
}

// employ creates the sessions and lets their clients work.
func (c *campaign) employ(at site) {
	c.t.Helper()
	for i := range *sessions {
		w := &worker{site: at, client: c.client, session: fmt.Sprintf("s%d", i), rng: rand.New(rand.NewPCG(uint64(i), 1))}
		status, body, err := w.call(c.ctx, http.MethodPost, "/v1/sessions", map[string]any{"sessionId": w.session,
			"tools": []any{map[string]any{"type": "function", "name": "read_file", "description": "Reads.", "parameters": map[string]any{"type": "object"}}}})
		if err != nil || status != http.StatusCreated {
			c.t.Fatalf("create session: %d %s (%v)", status, body, err)
		}
		c.workers = append(c.workers, w)
		c.running.Go(func() { w.work(c.ctx, c.stop) })
	}
}

// end lets the server live until every turn has ended, and checks everything.
func (c *campaign) end(what string) {
	c.t.Helper()
	close(c.stop)
	c.node.start("")
	c.finish(20 * time.Second)
	c.node.kill()
	integrity(c.t, c.node.database())
	s, err := sqlite.Open(c.t.Context(), c.node.database(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	c.report(what, s)
	c.t.Logf("slowest start %s", slices.Max(c.node.ready).Round(time.Millisecond))
}

// finish waits until the clients have seen the end of their last turns.
func (c *campaign) finish(within time.Duration) {
	c.t.Helper()
	finished := make(chan struct{})
	go func() { c.running.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(within):
		c.cancel()
		<-finished
		c.t.Errorf("turns have not ended %s after the last fault; the server says:\n%s", within, c.node.stderr.tail())
	}
}

// report checks everything and says how much that was.
func (c *campaign) report(what string, s keeper) {
	c.t.Helper()
	turns, acknowledged, ended := c.check(s)
	c.t.Logf("%s under %d sessions in %s: %d turns sent, %d acknowledged, %d in the store, %d model calls",
		what, len(c.workers), time.Since(c.began).Round(time.Millisecond), turns, acknowledged, ended, c.provider.asks.Load())
}

// keeper is a store, as the check reads it.
type keeper interface {
	Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error)
	ModeHistory(ctx context.Context, org agent.OrgID, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error)
	Turns(ctx context.Context, org agent.OrgID, id agent.SessionID, p store.Page) ([]agent.Turn, string, error)
	Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error)
}

// check holds what is kept to the invariants and to what the clients were told.
func (c *campaign) check(s keeper) (turns, acknowledged, kept int) {
	t := c.t
	ctx := t.Context()
	ran := c.runs()
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
				if f := step.ToolFinished; f != nil && (f.Result.Name == "ledger_append" || f.Result.Name == "ledger_ask") {
					line := fmt.Sprintf("%s %s/%s/%s", f.Result.Name, id, turn.Key.Turn, f.Result.CallID)
					if n := ran[line]; f.Result.Code == agent.OutcomeOK && n != 1 || f.Result.Code == agent.OutcomeDenied && n != 0 {
						t.Errorf("%s ran %d times, and the model was told %q", line, n, f.Result.Code)
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
		// One answer calls the tool that asks twice, so it is told apart by its call.
		if strings.HasPrefix(line, "ledger_ask ") && n > 1 {
			t.Errorf("%s: the tool ran %d times", line, n)
		}
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
func all[T any](t testing.TB, page func(store.Page) ([]T, string, error)) (out []T) {
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

// runs returns how often each call ran.
func (c *campaign) runs() map[string]int {
	c.t.Helper()
	data, err := os.ReadFile(c.ledger)
	if err != nil {
		c.t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(data)) {
		ran[strings.TrimSpace(line)]++
	}
	return ran
}

func integrity(t testing.TB, path string) {
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
