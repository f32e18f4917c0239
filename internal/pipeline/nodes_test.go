package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
)

// Two nodes are sent the same turn at the same time: one of them runs it and asks the
// model, the other one follows.
func TestNodes_DuplicatesRunOnce(t *testing.T) {
	t.Parallel()
	const turns = 12
	var replies []llmtest.Reply
	for range turns {
		replies = append(replies, llmtest.Reply{Text: "Once."})
	}
	all := nodes(t, 3, replies)
	for i := range turns {
		u := streamed(fmt.Sprint("s", i), "t1", "Hello")
		streams := make([]*reading, len(all))
		var work sync.WaitGroup
		for n, r := range all {
			work.Go(func() {
				key, after, err := r.pipeline.Submit(t.Context(), caller, u)
				if err != nil {
					t.Error(err)
					return
				}
				if turn := r.await(key); turn.State != agent.TurnCompleted {
					t.Errorf("turn %s", turn.State)
				}
				streams[n] = r.read(key, after)
			})
		}
		work.Wait()
		if t.Failed() {
			return
		}
		sameStreams(t, []string{"1 turn.started", "2 model.request", "3 text.delta Once.", "4 turn.completed"}, streams...)
	}
	if got := len(all[0].provider.Requests()); got != turns {
		t.Errorf("the model was asked %d times for %d turns", got, turns)
	}
}

// A turn is followed on a node that does not run it, from the beginning and from within.
func TestNodes_FollowedElsewhere(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	all := nodes(t, 2, []llmtest.Reply{{Deltas: []string{"Hel", "lo"}, Block: release, BlockAfter: 5}})
	a, b := all[0], all[1]
	key := a.submit(streamed("s1", "t1", "Hello"))
	streams := []*reading{a.read(key, 0), b.read(key, 0)}
	within := b.read(key, 2)
	streams[0].until(t, agent.EventTextDelta)
	streams[1].until(t, agent.EventModelRequest)
	close(release)
	if turn := b.await(key); b.answer(turn).PrimaryOutputText != "Hello" {
		t.Errorf("answer %+v", b.answer(turn))
	}
	want := []string{"1 turn.started", "2 model.request", "3 text.delta Hel", "4 text.delta lo", "5 turn.completed"}
	sameStreams(t, want, streams...)
	sameStreams(t, want[2:], within)
}

// A node dies, or seems to, in the middle of a text. Another one takes its turn over, and
// every stream goes on to its end, on any node, without a gap or a repeat. What the old
// owner still writes is refused, and its own clients are told of no failure.
func TestNodes_TakeoverFromANodeThatIsSilent(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	all := nodes(t, 3, []llmtest.Reply{
		{Deltas: []string{"Half ", "an"}, Block: never, BlockAfter: 5},
		{Text: "A whole one."},
	}, brief)
	a := all[0]
	key := a.submit(streamed("s1", "t1", "Hello"))
	var streams []*reading
	for _, r := range all {
		streams = append(streams, r.read(key, 0))
	}
	streams[0].until(t, agent.EventTextDelta)
	streams[1].until(t, agent.EventModelRequest)
	awaited := make(chan agent.Turn, 1)
	go func() { awaited <- a.await(key) }()

	a.gate.shut()
	for _, r := range all[1:] {
		if turn := r.await(key); turn.State != agent.TurnCompleted || r.answer(turn).PrimaryOutputText != "A whole one." || turn.Epoch != 2 {
			t.Errorf("turn %s at epoch %d", turn.State, turn.Epoch)
		}
	}
	a.gate.reopen()
	if turn := <-awaited; turn.State != agent.TurnCompleted {
		t.Errorf("its first owner has it as %s", turn.State)
	}
	want := []string{"1 turn.started", "2 model.request", "3 turn.resumed", "4 text.delta A ", "5 text.delta whole ", "6 text.delta one.", "7 turn.completed"}
	sameStreams(t, want, append(streams, a.read(key, 0))...)
	a.journal(a.turn(key))
	if got := len(a.provider.Requests()); got != 2 {
		t.Errorf("the model was asked %d times", got)
	}
}

// The old owner comes back with an answer, and too late: it is refused, and the one of
// the new owner stands.
func TestNodes_LateWritesAreRefused(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	all := nodes(t, 2, []llmtest.Reply{{Text: "Too late.", Block: release}, {Text: "In time."}}, brief)
	a, b := all[0], all[1]
	key := a.submit(streamed("s1", "t1", "Hello"))
	a.asked(1)
	a.gate.shut()
	close(release) // its answer waits before the gate
	turn := b.await(key)
	if got := b.answer(turn).PrimaryOutputText; got != "In time." {
		t.Errorf("answer %q", got)
	}
	left := a.pipeline.Left(key)
	a.gate.reopen()
	if left != nil {
		<-left
	}
	if got := a.answer(a.await(key)).PrimaryOutputText; got != "In time." {
		t.Errorf("answer %q on the node that was late", got)
	}
	if a.gate.refused() == 0 {
		t.Error("nothing was refused, so the test shows nothing")
	}
	a.journal(a.turn(key))
}

// A node does not learn what became of a write. It tells of no failure and writes nothing
// more: whoever takes the turn over finds out.
func TestNodes_UnknownOutcomeIsNoFailure(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2, []llmtest.Reply{{Text: "Lost."}, {Text: "Found."}}, brief)
	a := all[0]
	var lost atomic.Bool
	a.gate.appending = func(w store.Append) error {
		switch {
		case w.State == agent.TurnCompleted && !lost.Swap(true):
			return fmt.Errorf("commit: %w", store.ErrUnknown)
		case lost.Load() && w.Epoch == 1:
			t.Errorf("it writes %+v all the same", w)
		}
		return nil
	}
	key := a.submit(userTurn("s1", "t1", "Hello"))
	for _, r := range all {
		if turn := r.await(key); turn.State != agent.TurnCompleted || r.answer(turn).PrimaryOutputText != "Found." || turn.Epoch != 2 {
			t.Errorf("turn %s at epoch %d: %s", turn.State, turn.Epoch, turn.Response)
		}
	}
}

// A turn is cancelled on a node that does not run it: durable at once, and the end for
// everybody, its owner's readers of text that is in no journal too.
func TestNodes_CancelledElsewhere(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	all := nodes(t, 2, []llmtest.Reply{{Deltas: []string{"Half ", "an"}, Block: never, BlockAfter: 5}, {Text: "Next."}}, brief)
	a, b := all[0], all[1]
	key := a.submit(streamed("s1", "t1", "Hello"))
	streams := []*reading{a.read(key, 0), b.read(key, 0)}
	streams[0].until(t, agent.EventTextDelta)
	left := a.pipeline.Left(key)
	if err := b.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if turn := b.turn(key); turn.State != agent.TurnCancelled || turn.Epoch != 2 {
		t.Errorf("the store has it as %s at epoch %d after its cancel", turn.State, turn.Epoch)
	}
	if turn := a.await(key); turn.State != agent.TurnCancelled {
		t.Errorf("its owner has it as %s", turn.State)
	}
	sameStreams(t, []string{"1 turn.started", "2 model.request", "3 turn.resumed", "4 turn.cancelled"}, streams...)
	<-left // its owner has let go of it
	a.journal(a.turn(key))
	if got := b.answer(b.await(b.submit(userTurn("s1", "t2", "Next")))).PrimaryOutputText; got != "Next." {
		t.Errorf("the next turn answers %q", got)
	}
}

// A turn that waits for its client goes on where the results come in, once, also when
// they come in at two places.
func TestNodes_ContinuedElsewhere(t *testing.T) {
	t.Parallel()
	all := nodes(t, 3, []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}, {Text: "Read."}})
	a := all[0]
	a.createWithTools("s1")
	key := a.submit(streamed("s1", "t1", "Read"))
	stream := a.read(key, 0)
	if turn := all[1].await(key); turn.State != agent.TurnWaiting {
		t.Fatalf("turn %s, want waiting", turn.State)
	}
	<-stream.done
	var work sync.WaitGroup
	for _, r := range all[1:] {
		work.Go(func() {
			_, after, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1"))
			if err != nil || after != 3 {
				t.Errorf("continue: after %d, %v", after, err)
			}
		})
	}
	work.Wait()
	for _, r := range all {
		if got := r.answer(r.await(key)).PrimaryOutputText; got != "Read." {
			t.Errorf("answer %q", got)
		}
		sameStreams(t, []string{"4 model.request", "5 text.delta Read.", "6 turn.completed"}, r.read(key, 3))
	}
	if got := len(a.provider.Requests()); got != 2 {
		t.Errorf("the model was asked %d times", got)
	}
	_, _, _, err := all[2].pipeline.Continue(t.Context(), caller, results("s1", "t1", "c2"))
	if agent.KindOf(err) != agent.KindTurnNotWaiting && agent.KindOf(err) != agent.KindTurnConflict {
		t.Errorf("other results: %v", err)
	}
}

// A queue is one for all nodes: turns run in the order in which they came, wherever.
func TestNodes_OneQueue(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	replies := []llmtest.Reply{{Text: "0", Block: release}}
	const queued = 4
	for i := range queued {
		replies = append(replies, llmtest.Reply{Text: fmt.Sprint(i + 1)})
	}
	all := nodes(t, 2, replies)
	a, b := all[0], all[1]
	a.createWith("s1", agent.ConcurrencyQueue)
	first := a.submit(userTurn("s1", "t0", "Hello"))
	a.asked(1)
	var keys []agent.TurnKey
	for i := range queued {
		keys = append(keys, all[i%2].submit(userTurn("s1", fmt.Sprint("t", i+1), "Hello")))
	}
	stream := b.read(keys[queued-1], 0)
	close(release)
	for i, key := range append([]agent.TurnKey{first}, keys...) {
		for _, r := range all {
			if got := r.answer(r.await(key)).PrimaryOutputText; got != fmt.Sprint(i) {
				t.Errorf("turn %s answers %q", key.Turn, got)
			}
		}
	}
	sameStreams(t, []string{"1 turn.queued", "2 turn.started", "3 model.request", "4 text.delta 4", "5 turn.completed"}, stream)
}

// A queue does not stand still because the turn before ended on another node, in the
// moment in which the next one got in line.
func TestNodes_QueuedBehindATurnThatEnds(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	all := nodes(t, 2, []llmtest.Reply{{Text: "First.", Block: release}, {Text: "Second."}}, func(r *rig) { r.times.SweepEvery = time.Hour })
	a, b := all[0], all[1]
	a.createWith("s1", agent.ConcurrencyQueue)
	first := a.submit(userTurn("s1", "t1", "Hello"))
	a.asked(1)
	b.gate.opening = func(n store.NewTurn) {
		if left := a.pipeline.Left(first); n.Turn.Queued && left != nil {
			close(release)
			<-left
		}
	}
	if got := b.answer(b.await(b.submit(userTurn("s1", "t2", "Hello")))).PrimaryOutputText; got != "Second." {
		t.Errorf("answer %q", got)
	}
}

// A turn that is sent elsewhere takes the place of the one that runs.
func TestNodes_InterruptedElsewhere(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	all := nodes(t, 2, []llmtest.Reply{{Text: "Never.", Block: never}, {Text: "Now."}}, brief)
	a, b := all[0], all[1]
	a.createWith("s1", agent.ConcurrencyInterrupt)
	first := a.submit(userTurn("s1", "t1", "Hello"))
	a.asked(1)
	if got := b.answer(b.await(b.submit(userTurn("s1", "t2", "Hello")))).PrimaryOutputText; got != "Now." {
		t.Errorf("answer %q", got)
	}
	if turn := a.await(first); turn.State != agent.TurnCancelled {
		t.Errorf("the first turn is %s", turn.State)
	}
}

// Two turns of a session are sent to two nodes at once: one is active, the other refused.
func TestNodes_OneActiveTurn(t *testing.T) {
	t.Parallel()
	const rounds = 8
	release := make(chan struct{})
	defer close(release)
	var replies []llmtest.Reply
	for range rounds {
		replies = append(replies, llmtest.Reply{Text: "Alone.", Block: release})
	}
	all := nodes(t, 2, replies)
	for i := range rounds {
		session := fmt.Sprint("s", i)
		errs := make([]error, len(all))
		var work sync.WaitGroup
		for n, r := range all {
			work.Go(func() {
				_, _, errs[n] = r.pipeline.Submit(t.Context(), caller, userTurn(session, fmt.Sprint("t", n), "Hello"))
			})
		}
		work.Wait()
		refused := errors.Join(errs...)
		if (errs[0] == nil) == (errs[1] == nil) || agent.KindOf(refused) != agent.KindTurnInProgress {
			t.Errorf("round %d: %v", i, errs)
		}
	}
	if got := len(all[0].provider.Requests()); got > rounds {
		t.Errorf("the model was asked %d times for %d turns", got, rounds)
	}
}

// A node that drains hands over what does not end in time, and at once.
func TestNodes_DrainHandsOver(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	all := nodes(t, 2, []llmtest.Reply{{Deltas: []string{"Half ", "an"}, Block: never, BlockAfter: 5}, {Text: "Whole."}},
		func(r *rig) { r.times.Lease = time.Hour })
	a, b := all[0], all[1]
	key := a.submit(streamed("s1", "t1", "Hello"))
	streams := []*reading{a.read(key, 0), b.read(key, 0)}
	streams[0].until(t, agent.EventTextDelta)
	a.drainAtOnce()
	if got := b.answer(b.await(key)).PrimaryOutputText; got != "Whole." {
		t.Errorf("answer %q", got)
	}
	want := []string{"1 turn.started", "2 model.request", "3 turn.resumed", "4 text.delta Whole.", "5 turn.completed"}
	sameStreams(t, want, streams[1])
	if <-streams[0].done; agent.KindOf(streams[0].err) != agent.KindDraining {
		t.Errorf("the stream on the node that stops ends with %v, want draining", streams[0].err)
	}
	last := streams[0].events[len(streams[0].events)-1].Sequence
	sameStreams(t, want[2:], b.read(key, last))
}

// A session is erased on another node than the one that runs its turn, and used again
// under the same names. What is left of the old turn does not get into the new one.
func TestNodes_ErasedElsewhere(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	all := nodes(t, 2, []llmtest.Reply{{Text: "Old.", Block: release}, {Text: "New.", Block: release}}, func(r *rig) { r.times.Lease = time.Minute })
	a, b := all[0], all[1]
	key := a.submit(userTurn("s1", "t1", "Hello"))
	a.asked(1)
	left := a.pipeline.Left(key)
	if err := b.pipeline.Erase(t.Context(), caller, "s1"); err != nil {
		t.Fatal(err)
	}
	b.submit(userTurn("s1", "t1", "Hello"))
	b.asked(2)
	close(release)
	<-left
	if a.gate.refused() == 0 {
		t.Error("the old turn was not refused")
	}
	if got := b.answer(b.await(key)).PrimaryOutputText; got != "New." {
		t.Errorf("answer %q", got)
	}
	b.journal(b.turn(key))
}

// After a pause of all of them nodes keep the turns that nobody has taken: nothing is
// asked again.
func TestNodes_PauseOfEverybody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	all := nodes(t, 1, []llmtest.Reply{{Text: "Once.", Block: release}}, brief)
	a := all[0]
	key := a.submit(userTurn("s1", "t1", "Hello"))
	a.asked(1)
	a.gate.shut()
	wait(a.times.Lease + time.Second) // the lease's time is the database's
	a.gate.reopen()
	wait(a.times.Lease) // in which the node looks for what nobody runs
	close(release)
	turn := a.await(key)
	if got := a.answer(turn).PrimaryOutputText; got != "Once." || turn.Epoch != 1 {
		t.Errorf("answer %q at epoch %d", got, turn.Epoch)
	}
}

// Turns that wait too long, for their client or for their session, expire once, whoever
// finds them.
func TestNodes_ExpireOnce(t *testing.T) {
	t.Parallel()
	log := &errorLog{}
	all := nodes(t, 3, []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}}, func(r *rig) {
		r.times.WaitTime, r.times.SweepEvery, r.log = time.Millisecond, 20*time.Millisecond, log.logger()
	})
	all[0].createWithTools("s1")
	key := all[0].submit(userTurn("s1", "t1", "Read"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		turn, err := all[0].pipeline.Await(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if turn.State == agent.TurnFailed {
			break
		}
	}
	all[0].journal(all[0].turn(key))
	if diff := cmp.Diff([]string(nil), log.errors()); diff != "" {
		t.Errorf("errors in the log (-want +got):\n%s", diff)
	}
}
