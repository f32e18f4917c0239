package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// wire connects nodes of one process. It can be cut, and then nothing gets through.
type wire struct {
	mu   sync.Mutex // guards what follows
	ends []*wireEnd
	cut  bool
}

// wireEnd is the bus of one node.
type wireEnd struct {
	wire *wire
	rig  *rig
	tell func(agent.TurnKey)
}

func (w *wire) join(r *rig) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := &wireEnd{wire: w, rig: r}
	w.ends = append(w.ends, end)
	r.bus = end
}

// others returns the other nodes, as far as they can be reached.
func (e *wireEnd) others() (out []*wireEnd) {
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	for _, o := range e.wire.ends {
		if o != e && !e.wire.cut {
			out = append(out, o)
		}
	}
	return out
}

// Follow implements pipeline.Bus with a copy that is not closed when its owner is silent.
func (e *wireEnd) Follow(ctx context.Context, key agent.TurnKey, _ int64) (*events.Log, bool) {
	for _, o := range e.others() {
		log, ok := o.rig.hub.Follow(key)
		if !ok {
			continue
		}
		copied := events.NewHub().Open(key, log.First())
		go func() {
			defer copied.Close()
			for event, err := range log.From(ctx, 0) {
				if err != nil {
					return
				}
				copied.Append(event)
			}
		}()
		return copied, true
	}
	return nil, false
}

// Moved implements pipeline.Bus.
func (e *wireEnd) Moved(key agent.TurnKey) {
	for _, o := range e.others() {
		o.tell(key)
	}
}

// OnMoved implements pipeline.Bus.
func (e *wireEnd) OnMoved(tell func(agent.TurnKey)) { e.tell = tell }

// seldom lets a node look at the store as if never: what comes, comes over the bus.
func seldom(r *rig) {
	r.times.Poll, r.times.SweepEvery, r.times.Lease = time.Hour, time.Hour, time.Hour
}

// With a bus the text of a turn that runs elsewhere comes as it is written, and its end
// at once.
func TestBus_FollowsTextLive(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := &wire{}
	all := nodes(t, 2, []llmtest.Reply{{Deltas: []string{"Hel", "lo"}, Block: release, BlockAfter: 5}}, w.join, seldom)
	a, b := all[0], all[1]
	key := a.submit(streamed("s1", "t1", "Hello"))
	a.read(key, 0).until(t, agent.EventTextDelta)
	stream := b.read(key, 0)
	stream.until(t, agent.EventTextDelta) // it is in no journal yet
	close(release)
	if turn := b.await(key); turn.State != agent.TurnCompleted {
		t.Errorf("turn %s", turn.State)
	}
	sameStreams(t, []string{"1 turn.started", "2 model.request", "3 text.delta Hel", "4 text.delta lo", "5 turn.completed"}, stream)
}

// A cancel elsewhere reaches the node that runs the turn at once.
func TestBus_TellsTheOwnerOfACancel(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	w := &wire{}
	all := nodes(t, 2, []llmtest.Reply{{Text: "Never.", Block: never}}, w.join, seldom)
	a, b := all[0], all[1]
	key := a.submit(userTurn("s1", "t1", "Hello"))
	a.asked(1)
	left := a.pipeline.Left(key)
	if err := b.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	<-left
	if turn := a.await(key); turn.State != agent.TurnCancelled {
		t.Errorf("turn %s", turn.State)
	}
}

// A session that is erased elsewhere takes its running turn along at once.
func TestBus_TellsTheOwnerOfAnErasedSession(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	w := &wire{}
	all := nodes(t, 2, []llmtest.Reply{{Text: "Never.", Block: never}}, w.join, seldom)
	key := all[0].submit(userTurn("s1", "t1", "Hello"))
	all[0].asked(1)
	left := all[0].pipeline.Left(key)
	if err := all[1].pipeline.Erase(t.Context(), caller, "s1"); err != nil {
		t.Fatal(err)
	}
	<-left
}

// The bus carries hints and copies only. A node that is cut off from the store still has
// its log, in which nothing comes any more, and hints are lost: the streams go on all the
// same with the next owner.
func TestBus_IsNotReliedOn(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	w := &wire{}
	all := nodes(t, 3, []llmtest.Reply{{Deltas: []string{"Half ", "an"}, Block: never, BlockAfter: 5}, {Text: "Whole."}}, w.join, brief)
	a := all[0]
	key := a.submit(streamed("s1", "t1", "Hello"))
	streams := []*reading{all[1].read(key, 0), all[2].read(key, 0)}
	for _, s := range streams {
		s.until(t, agent.EventTextDelta)
	}
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	a.gate.shut()
	for _, s := range streams {
		<-s.done
		var last agent.EventType
		if n := len(s.events); n > 0 {
			last = s.events[n-1].Type
		}
		if diff := cmp.Diff(agent.EventTurnCompleted, last); diff != "" || s.err != nil {
			t.Errorf("the stream ends with %v (-want +got):\n%s", s.err, diff)
		}
	}
	sameStreams(t, []string{"1 turn.started", "2 model.request", "3 turn.resumed", "4 text.delta Whole.", "5 turn.completed"}, streams...)
}
