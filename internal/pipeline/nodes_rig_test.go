package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// brief is a lease for tests in which one runs out. The others have the default, since a
// slow machine must not let it happen there.
func brief(r *rig) { r.times.Lease = 3 * time.Second }

// nodes are pipelines that share a database and a model.
func nodes(t *testing.T, n int, replies []llmtest.Reply, options ...func(*rig)) []*rig {
	t.Helper()
	database, provider := cluster.Database(t), llmtest.New(t, replies...)
	shared := func(r *rig) {
		withDatabase(database)(r)
		r.provider, r.gate = provider, newGate()
	}
	var all []*rig
	for range n {
		all = append(all, newRig(t, append([]func(*rig){shared}, options...)...))
	}
	return all
}

// gate stands between a node and the database. While it is shut nothing gets through:
// the node is paused, as far as everybody else can see, or cut off.
type gate struct {
	leasedStore
	// opening is called before a turn is opened.
	opening func(store.NewTurn)
	// appending is called before a transition is written; its error is what comes of it.
	appending func(store.Append) error

	mu     sync.Mutex    // guards what follows
	open   chan struct{} // closed while the gate is open
	fenced []error       // what late writes got
}

// leasedStore is a store that nodes may share.
type leasedStore interface {
	pipeline.Store
	store.Leasing
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// reopen lets everything through again; doing so twice does nothing.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused returns how many late writes were refused.
func (g *gate) refused() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.fenced)
}

func (g *gate) AppendSteps(ctx context.Context, a store.Append) error {
	if err := g.pass(ctx); err != nil {
		return err
	}
	if g.appending != nil {
		if err := g.appending(a); err != nil {
			return err
		}
	}
	err := g.leasedStore.AppendSteps(ctx, a)
	if errors.Is(err, store.ErrFenced) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.fenced = append(g.fenced, err)
	}
	return err
}

func (g *gate) OpenTurn(ctx context.Context, n store.NewTurn) error {
	if g.opening != nil {
		g.opening(n)
	}
	if err := g.pass(ctx); err != nil {
		return err
	}
	return g.leasedStore.OpenTurn(ctx, n)
}

func (g *gate) Turn(ctx context.Context, k agent.TurnKey) (agent.Turn, error) {
	if err := g.pass(ctx); err != nil {
		return agent.Turn{}, err
	}
	return g.leasedStore.Turn(ctx, k)
}

func (g *gate) Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.leasedStore.Steps(ctx, k)
}

func (g *gate) Renew(ctx context.Context, owner string, claims []store.Claim, lease time.Duration) ([]agent.TurnKey, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.leasedStore.Renew(ctx, owner, claims, lease)
}

func (g *gate) Takeover(ctx context.Context, owner string, lease time.Duration, most int) ([]store.Claim, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.leasedStore.Takeover(ctx, owner, lease, most)
}

func (g *gate) Positions(ctx context.Context, keys []agent.TurnKey) ([]store.Position, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.leasedStore.Positions(ctx, keys)
}

// reading is somebody who follows a turn.
type reading struct {
	done   chan struct{}
	events []agent.Event
	err    error

	mu   sync.Mutex // guards seen
	seen map[agent.EventType]chan struct{}
}

// read follows a turn in the background, from an event on.
func (r *rig) read(key agent.TurnKey, after int64) *reading {
	g := &reading{done: make(chan struct{}), seen: map[agent.EventType]chan struct{}{}}
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	go func() {
		defer close(g.done)
		defer cancel()
		for e, err := range r.pipeline.Follow(ctx, key, after) {
			if err != nil {
				g.err = err
				return
			}
			g.events = append(g.events, e)
			g.mu.Lock()
			c := g.of(e.Type)
			select {
			case <-c:
			default:
				close(c)
			}
			g.mu.Unlock()
		}
	}()
	return g
}

// of returns what is closed when an event of a type has come. g.mu is held.
func (g *reading) of(kind agent.EventType) chan struct{} {
	if g.seen[kind] == nil {
		g.seen[kind] = make(chan struct{})
	}
	return g.seen[kind]
}

// until waits for an event of a type.
func (g *reading) until(t *testing.T, kind agent.EventType) {
	t.Helper()
	g.mu.Lock()
	c := g.of(kind)
	g.mu.Unlock()
	select {
	case <-c:
	case <-g.done:
		t.Fatalf("the stream ended without a %s: %v", kind, g.err)
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s comes", kind)
	}
}

// all returns what was read, when the turn has ended: "sequence type", with the text of
// what is text. What turn.resumed declares void is gone, as for a client that heeds it;
// what is left has neither gaps nor repeats.
func (g *reading) all(t *testing.T) (out []string) {
	t.Helper()
	<-g.done
	if g.err != nil {
		t.Fatalf("follow: %v, after %d events", g.err, len(g.events))
	}
	var stands []agent.Event
	for _, e := range g.events {
		if e.Type == agent.EventTurnResumed {
			for len(stands) > 0 && stands[len(stands)-1].Sequence >= e.Sequence {
				if old := stands[len(stands)-1]; old.Type != agent.EventTextDelta {
					t.Errorf("%d %s was taken back", old.Sequence, old.Type)
				}
				stands = stands[:len(stands)-1]
			}
		}
		if n := len(stands); n > 0 && e.Sequence != stands[n-1].Sequence+1 {
			t.Errorf("event %d follows %d", e.Sequence, stands[n-1].Sequence)
		}
		stands = append(stands, e)
	}
	for _, e := range stands {
		text := fmt.Sprint(e.Sequence, " ", e.Type)
		if e.Text != "" {
			text += " " + e.Text
		}
		out = append(out, text)
	}
	return out
}

// streamed is a turn whose text comes piece by piece.
func streamed(session, turn, instruction string) contract.UserTurn {
	stream := true
	u := userTurn(session, turn, instruction)
	u.Stream = &stream
	return u
}

// sameStreams compares what readers have read.
func sameStreams(t *testing.T, want []string, readers ...*reading) {
	t.Helper()
	for i, g := range readers {
		if diff := cmp.Diff(want, g.all(t)); diff != "" {
			t.Errorf("reader %d (-want +got):\n%s", i, diff)
		}
	}
}

// errorLog keeps what is logged as an error.
type errorLog struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *errorLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Write implements io.Writer, for a handler that writes a record at a time.
func (l *errorLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *errorLog) errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}
