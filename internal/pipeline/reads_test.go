package pipeline

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aptixhq/aptix/internal/agent"
)

// Whoever asks while a reading is under way gets the next one, which all of them share:
// what they know already may be missing in the first.
func TestSharedReads_ManyAtOnceAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads sharedReads
		var began atomic.Int64
		gate := make(chan struct{})
		key := agent.TurnKey{Org: "o", Session: "s", Turn: "t"}
		read := func() (*projection, error) {
			p := &projection{resumed: []int64{began.Add(1)}}
			<-gate
			return p, nil
		}
		got := make(chan int64, 1001)
		ask := func() {
			p, err := reads.do(t.Context(), key, read)
			if err != nil {
				t.Error(err)
				return
			}
			got <- p.resumed[0]
		}
		go ask()
		synctest.Wait() // it reads
		for range 1000 {
			go ask()
		}
		synctest.Wait()
		if n := began.Load(); n != 1 {
			t.Errorf("%d readings at once", n)
		}
		close(gate)
		synctest.Wait()
		if n := began.Load(); n != 2 {
			t.Errorf("%d readings for 1,001 who ask at once, want 2", n)
		}
		if first := <-got; first != 1 {
			t.Errorf("the first got reading %d", first)
		}
		for range 1000 {
			if n := <-got; n != 2 {
				t.Fatalf("one who asked during reading 1 got reading %d", n)
			}
		}
		if len(reads.turns) != 0 {
			t.Errorf("%d turns are kept", len(reads.turns))
		}
	})
}

// One that fails or leaves takes nobody along.
func TestSharedReads_FaultsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads sharedReads
		gate := make(chan struct{})
		key := agent.TurnKey{Turn: "t"}
		broken := errors.New("broken")
		errs := make(chan error, 3)
		ask := func(ctx context.Context, err error) {
			_, got := reads.do(ctx, key, func() (*projection, error) {
				<-gate
				return &projection{}, err
			})
			errs <- got
		}
		go ask(t.Context(), broken)
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		go ask(ctx, nil)
		synctest.Wait()
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that left got %v", err)
		}
		go ask(t.Context(), nil)
		synctest.Wait()
		close(gate)
		if err := <-errs; !errors.Is(err, broken) {
			t.Errorf("the first got %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("the one behind it got %v", err)
		}
	})
}
