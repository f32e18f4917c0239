package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/store"
)

// A server that crashes and comes back is not noticed but by the time that it takes: each
// write is there once, and each says so.
func TestWrite_ServerCrashes(t *testing.T) {
	own := &pgtest.Cluster{Durable: true} // the others' tests go on meanwhile
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	// Its database goes with it.
	s := another(t, own.Database(t))
	const writers = 4
	var stop atomic.Bool
	var written [writers]atomic.Int64
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var work sync.WaitGroup
	for i := range writers {
		id := agent.SessionID(fmt.Sprint("s", i))
		work.Go(func() {
			if err := s.OpenTurn(ctx, newTurn(id, "t1", 0)); err != nil {
				t.Error(err)
				return
			}
			for n := 2; !stop.Load(); n++ {
				if err := s.AppendSteps(ctx, store.Append{Key: key(id, "t1"), State: agent.TurnRunning, Steps: []agent.Step{resumed(n)}}); err != nil {
					t.Errorf("step %d of %s: %v", n, id, err)
					return
				}
				written[i].Store(int64(n))
			}
		})
	}
	for range 3 {
		before := written[0].Load()
		for written[0].Load() < before+20 && !t.Failed() {
			_, _ = s.pool.Exec(ctx, "SELECT pg_sleep(0.005)") // on a connection that may be of the server before
		}
		own.Crash(t)
	}
	// They find the server again, each by its own retry.
	for i := range written {
		for before := written[i].Load(); written[i].Load() == before && !t.Failed() && ctx.Err() == nil; {
			_ = s.Ping(ctx) // once more, until a writer has moved
		}
	}
	stop.Store(true)
	work.Wait()
	for i := range writers {
		if got := stepsOf(t, s, agent.SessionID(fmt.Sprint("s", i))); int64(got) != written[i].Load() {
			t.Errorf("session %d has %d steps, and %d were acknowledged", i, got, written[i].Load())
		}
	}
}
