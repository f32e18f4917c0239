package events_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}

func event(sequence int64) agent.Event {
	return agent.Event{Type: agent.EventTextDelta, Sequence: sequence, Text: fmt.Sprint("text ", sequence)}
}

// follow reads a log to its end and returns the sequences, and the error at which
// it ended. It fails when an event is not the one of its sequence.
func follow(ctx context.Context, t *testing.T, l *events.Log, after int64) (got []int64, err error) {
	for e, err := range l.From(ctx, after) {
		if err != nil {
			return got, err
		}
		if diff := cmp.Diff(event(e.Sequence), e); diff != "" {
			t.Errorf("event %d differs: %s", e.Sequence, diff)
		}
		got = append(got, e.Sequence)
	}
	return got, nil
}

func wantSequences(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sequences differ (-want +got):\n%s", diff)
	}
}

func TestLog_FollowersStartAnywhereAndGetTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub()
		log := hub.Open(key, 3)
		log.Append(event(3), event(4))

		// before the log, at its start, inside, at its end, beyond it
		results := make([][]int64, 5)
		var wg sync.WaitGroup
		for i, after := range []int64{0, 2, 3, 4, 6} {
			wg.Go(func() {
				got, err := follow(t.Context(), t, log, after)
				if err != nil {
					t.Errorf("after %d: %v", after, err)
				}
				results[i] = got
			})
		}
		synctest.Wait() // all have read what is there and wait
		log.Append(event(5))
		synctest.Wait()
		log.Append(event(6), event(7))
		log.Append()
		log.Append(event(8))
		log.Close()
		wg.Wait()
		wantSequences(t, results[0], 3, 4, 5, 6, 7, 8)
		wantSequences(t, results[1], 3, 4, 5, 6, 7, 8)
		wantSequences(t, results[2], 4, 5, 6, 7, 8)
		wantSequences(t, results[3], 5, 6, 7, 8)
		wantSequences(t, results[4], 7, 8)
		if log.First() != 3 {
			t.Errorf("the log begins at %d, want 3", log.First())
		}
	})
}

func TestLog_EventsArriveAsTheyAreAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := events.NewHub().Open(key, 1)
		var got []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range log.From(t.Context(), 0) {
				got = append(got, e.Sequence)
			}
		})
		var want []int64
		for n := int64(1); n <= 5; n++ {
			synctest.Wait() // the follower has read all there is and waits
			wantSequences(t, got, want...)
			log.Append(event(n))
			want = append(want, n)
		}
		log.Close()
		wg.Wait()
		wantSequences(t, got, want...)
	})
}

// crowd opens the logs of n other turns.
func crowd(hub *events.Hub, n int) (logs []*events.Log) {
	for n := range n {
		logs = append(logs, hub.Open(agent.TurnKey{Org: "acme", Session: "s1", Turn: agent.TurnID(fmt.Sprint(n))}, 1))
	}
	return logs
}

// Where many turns run, text is gathered; what is no text is told of at once, and so are
// the first text after a pause and everything where few run.
func TestLog_TextIsGatheredWhereManyTurnsRun(t *testing.T) {
	other := agent.Event{Type: agent.EventModeChanged, SessionID: key.Session, TurnID: key.Turn}
	for name, c := range map[string]struct {
		turns int // that run, for each processor
		event func(sequence int64) agent.Event
		pause time.Duration // before the second event
		after time.Duration // from the second event on until it is there
	}{
		"few turns":         {1, event, time.Millisecond, 0},
		"some turns":        {150, event, time.Millisecond, 9 * time.Millisecond},
		"many turns":        {500, event, time.Millisecond, 10 * time.Millisecond},
		"very many turns":   {2000, event, time.Millisecond, 10 * time.Millisecond},
		"later text":        {500, event, 6 * time.Millisecond, 10 * time.Millisecond},
		"text after a rest": {500, event, 10 * time.Millisecond, 0},
		"no text": {500, func(sequence int64) agent.Event {
			e := other
			e.Sequence = sequence
			return e
		}, time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := events.NewHub()
				log := hub.Open(key, 1)
				crowd(hub, c.turns*runtime.GOMAXPROCS(0)-1)
				var came []time.Time
				var got []int64
				var wg sync.WaitGroup
				wg.Go(func() {
					for e := range log.From(t.Context(), 0) {
						came, got = append(came, time.Now()), append(got, e.Sequence)
					}
				})
				synctest.Wait()
				first := time.Now()
				log.Append(event(1))
				synctest.Wait()
				time.Sleep(c.pause)
				second := time.Now()
				log.Append(c.event(2))
				time.Sleep(time.Second)
				log.Append(event(3))
				synctest.Wait()
				log.Append(event(4)) // Close holds nothing back
				log.Close()
				end := time.Now()
				wg.Wait()
				wantSequences(t, got, 1, 2, 3, 4)
				want := []time.Time{first, second.Add(c.after), second.Add(time.Second), end}
				for i := range came {
					if d := came[i].Sub(want[i]); d.Abs() > time.Millisecond {
						t.Errorf("event %d came %s after the first, want %s", i+1, came[i].Sub(first), want[i].Sub(first))
					}
				}
			})
		})
	}
}

// Text that comes at a steady pace is told of with the next text that may be told of, and
// waits for no timer: neither that which comes nor, for longer than need be, that before it.
func TestLog_SteadyTextIsGatheredAsItComes(t *testing.T) {
	for _, c := range []struct {
		pace time.Duration
		of   int // so many pieces are told of together
	}{{2 * time.Millisecond, 5}, {4 * time.Millisecond, 3}, {5 * time.Millisecond, 2}, {8 * time.Millisecond, 2}, {10 * time.Millisecond, 1}, {20 * time.Millisecond, 1}} {
		t.Run(c.pace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := events.NewHub()
				log := hub.Open(key, 1)
				crowd(hub, 500*runtime.GOMAXPROCS(0)-1)
				var late []time.Duration
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() {
					for e := range log.From(t.Context(), 0) {
						late = append(late, time.Since(began)-time.Duration(e.Sequence-1)*c.pace)
					}
				})
				const pieces = 61
				for n := range pieces {
					synctest.Wait()
					log.Append(event(int64(n) + 1))
					time.Sleep(c.pace)
				}
				log.Close()
				wg.Wait()
				for n := range late {
					// The first is told of at once, and with each that is those before it.
					want := time.Duration((pieces-1-n)%c.of) * c.pace
					if late[n] != want {
						t.Errorf("piece %d comes %s late, want %s", n+1, late[n], want)
					}
				}
				if len(late) != pieces {
					t.Errorf("%d pieces came", len(late))
				}
			})
		})
	}
}

// Turns that are over do not count, though their logs are still found.
func TestLog_TextIsNotGatheredForTurnsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub()
		for _, over := range crowd(hub, 2000*runtime.GOMAXPROCS(0)) {
			over.Append(event(1))
			over.Close()
			over.Close()
		}
		log := hub.Open(key, 1)
		var got []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range log.From(t.Context(), 0) {
				got = append(got, e.Sequence)
			}
		})
		var want []int64
		for n := int64(1); n <= 3; n++ {
			synctest.Wait()
			log.Append(event(n))
			want = append(want, n)
			synctest.Wait() // no time passes
			wantSequences(t, got, want...)
		}
		log.Close()
		wg.Wait()
	})
}

// Text that was gathered and then overtaken by what is no text comes before it, once.
func TestLog_GatheredTextComesWithWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub()
		log := hub.Open(key, 1)
		crowd(hub, 500*runtime.GOMAXPROCS(0)-1)
		var got []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range log.From(t.Context(), 0) {
				got = append(got, e.Sequence)
			}
		})
		synctest.Wait()
		log.Append(event(1))
		synctest.Wait()
		log.Append(event(2))
		synctest.Wait()
		wantSequences(t, got, 1)
		log.Append(agent.Event{Type: agent.EventModeChanged, Sequence: 3})
		synctest.Wait()
		wantSequences(t, got, 1, 2, 3)
		time.Sleep(time.Second) // what was to tell of the text finds nothing more
		wantSequences(t, got, 1, 2, 3)
		log.Close()
		wg.Wait()
	})
}

func TestLog_NobodyWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := events.NewHub().Open(key, 1)
		log.Append(event(1))
		proceed := make(chan struct{})
		var slow []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range log.From(t.Context(), 0) {
				slow = append(slow, e.Sequence)
				<-proceed
			}
		})
		synctest.Wait() // the slow one has its first event and is stuck
		var want []int64
		for n := int64(1); n <= 1000; n++ {
			if n > 1 {
				log.Append(event(n))
			}
			want = append(want, n)
		}
		log.Close()
		quick, err := follow(t.Context(), t, log, 0)
		if err != nil {
			t.Error(err)
		}
		wantSequences(t, quick, want...)
		close(proceed)
		wg.Wait()
		wantSequences(t, slow, want...)
	})
}

func TestLog_FollowersDrainAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub()
		log := hub.Open(key, 1)
		log.Append(event(1), event(2))
		log.Close()
		log.Close()
		log.Append(event(3))
		if got, ok := hub.Follow(key); !ok || got != log {
			t.Error("a log that was closed just now is not found")
		}
		for after, want := range [][]int64{{1, 2}, {2}, nil, nil} {
			got, err := follow(t.Context(), t, log, int64(after))
			if err != nil {
				t.Errorf("after %d: %v", after, err)
			}
			wantSequences(t, got, want...)
		}
		time.Sleep(time.Second)
		if _, ok := hub.Follow(key); ok {
			t.Error("the hub still knows a log that was closed a second ago")
		}
	})
}

func TestHub_ForgetsAnEmptyLogAtOnce(t *testing.T) {
	hub := events.NewHub()
	hub.Open(key, 1).Close()
	if _, ok := hub.Follow(key); ok {
		t.Error("the hub knows a log that never had an event and is closed")
	}
}

func TestLog_ContextEndsAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := events.NewHub().Open(key, 1)
		defer log.Close()
		log.Append(event(1))
		ctx, cancel := context.WithCancel(t.Context())
		var got []int64
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err = follow(ctx, t, log, 0)
		}()
		synctest.Wait() // it has read the event and waits
		cancel()
		<-done
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		wantSequences(t, got, 1)

		// Also when there is enough to read.
		got, err = follow(ctx, t, log, 0)
		if !errors.Is(err, context.Canceled) || len(got) != 0 {
			t.Errorf("got %v and %v, want context.Canceled alone", got, err)
		}
	})
}

func TestLog_AnyNumberIsAPosition(t *testing.T) {
	log := events.NewHub().Open(key, 1)
	log.Append(event(1))
	log.Close()
	for after, want := range map[int64][]int64{math.MinInt64: {1}, -1: {1}, math.MaxInt64: nil} {
		got, err := follow(t.Context(), t, log, after)
		if err != nil {
			t.Errorf("after %d: %v", after, err)
		}
		wantSequences(t, got, want...)
	}
}

func TestLog_FollowerMayStop(t *testing.T) {
	log := events.NewHub().Open(key, 1)
	defer log.Close()
	log.Append(event(1), event(2))
	for e, err := range log.From(t.Context(), 0) {
		if e.Sequence != 1 || err != nil {
			t.Errorf("got event %d, error %v", e.Sequence, err)
		}
		break
	}
}

func TestLog_RepeatsAreDroppedAndGapsEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which notices a follower that waits for ever
		hub := events.NewHub()
		log := hub.Open(key, 2)
		log.Append(event(1), event(2))
		log.Append(event(2), event(3), event(3))
		log.Append(event(4), event(6), event(5))
		got, err := follow(t.Context(), t, log, 0)
		if err != nil {
			t.Error(err)
		}
		wantSequences(t, got, 2, 3, 4)
	})
}

func TestNewLog_IsOneThatNoHubKnows(t *testing.T) {
	log := events.NewLog(key, 4)
	log.Append(event(4), event(5))
	if log.Closed() {
		t.Error("it is closed from the start")
	}
	log.Close()
	log.Close()
	if !log.Closed() {
		t.Error("it is not closed")
	}
	got, err := follow(t.Context(), t, log, 4)
	if err != nil {
		t.Error(err)
	}
	wantSequences(t, got, 5)
}

func TestHub_FindsTheLogOfATurn(t *testing.T) {
	hub := events.NewHub()
	if _, ok := hub.Follow(key); ok {
		t.Error("found a log before there was one")
	}
	log := hub.Open(key, 1)
	defer log.Close()
	if got, ok := hub.Follow(key); !ok || got != log {
		t.Error("did not find the open log")
	}
	other := key
	other.Org = "globex"
	if _, ok := hub.Follow(other); ok {
		t.Error("found the log of another organisation's turn")
	}
}

func TestHub_NewLogReplacesTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub()
		old := hub.Open(key, 1)
		old.Append(event(1))
		var got []int64
		var wg sync.WaitGroup
		wg.Go(func() { got, _ = follow(t.Context(), t, old, 0) })
		synctest.Wait()
		log := hub.Open(key, 2)
		defer log.Close()
		wg.Wait() // the old log's follower has stopped
		wantSequences(t, got, 1)
		old.Close() // its runner finishes late
		if got, ok := hub.Follow(key); !ok || got != log {
			t.Error("the old log has taken the new one with it")
		}
	})
}

func TestLog_ManyFollowersWhileItGrows(t *testing.T) {
	log := events.NewHub().Open(key, 1)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			after := int64(i * 10)
			got, err := follow(t.Context(), t, log, after)
			if err != nil || int64(len(got)) != 1000-after {
				t.Errorf("after %d: got %d events (error %v), want %d", after, len(got), err, 1000-after)
			}
			for j, sequence := range got {
				if want := after + int64(j) + 1; sequence != want {
					t.Errorf("after %d: event %d stands where %d should", after, sequence, want)
					break
				}
			}
		})
	}
	for n := int64(1); n <= 1000; n++ {
		log.Append(event(n))
	}
	log.Close()
	wg.Wait()
}

// A reader joins a turn that is running: the older events come from the journal,
// the others from the log.
func ExampleLog_From() {
	hub := events.NewHub()
	running := hub.Open(key, 3)
	running.Append(event(3), event(4))
	running.Close()

	log := running
	after := int64(1) // the last event that the reader has seen
	if log.First()-1 > after {
		fmt.Printf("from the journal: above %d and below %d\n", after, log.First())
	}
	for e, err := range log.From(context.Background(), after) {
		if err != nil {
			fmt.Println("the reader has left:", err)
			return
		}
		fmt.Println(e.Sequence, e.Text)
	}
	// Output:
	// from the journal: above 1 and below 3
	// 3 text 3
	// 4 text 4
}

// A turn is over before its reader comes: it reads once, and does not come back. What it
// read into is the next one's when it closes.
func TestReader_CloseGivesBackWhatWasReadInto(t *testing.T) {
	log := events.NewHub().Open(key, 1)
	for n := range int64(40) {
		log.Append(event(n + 1))
	}
	log.Close()
	// The reader itself is one. Under the race detector pools forget now and then.
	if got := testing.AllocsPerRun(1000, func() {
		r := log.Reader(0)
		if ready, _, err := r.Next(t.Context()); err != nil || len(ready) == 0 {
			t.Fatal(len(ready), err)
		}
		r.Close()
		r.Close() // does nothing
	}); got > 2 {
		t.Errorf("a reader makes %.0f things, want itself only", got)
	}
}

func BenchmarkLog_Append(b *testing.B) {
	log := events.NewHub().Open(key, 1)
	defer log.Close()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	for range 8 {
		wg.Go(func() {
			for range log.From(ctx, 0) {
			}
		})
	}
	n := int64(0)
	for b.Loop() {
		n++
		log.Append(agent.Event{Type: agent.EventTextDelta, SessionID: key.Session, TurnID: key.Turn, Sequence: n, Text: "hello "})
	}
	cancel()
	wg.Wait()
}
