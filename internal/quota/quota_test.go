package quota

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

func TestCounter_NeverMoreThanSoMany(t *testing.T) {
	var c Counter[string]
	var entered atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if c.Enter("a", 7) {
				entered.Add(1)
			}
		})
	}
	wg.Wait()
	if entered.Load() != 7 || c.Of("a") != 7 {
		t.Errorf("%d entered and %d are counted, want 7", entered.Load(), c.Of("a"))
	}
	c.Leave("a")
	if !c.Enter("a", 7) || !c.Enter("b", 7) {
		t.Error("there was room")
	}
	for range 7 {
		c.Leave("a")
	}
	c.Leave("b")
	if len(c.n) != 0 {
		t.Errorf("%v is left", c.n)
	}
}

// The wait that is told is the true one: a moment before it is too early, after it is not.
func TestRates_TheWaitIsTrue(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRates()
	r.now = func() time.Time { return now }
	at := Rate{PerSecond: 4, Burst: 3}
	for range 3 {
		if wait, ok := r.Take(User{"acme", "ann"}, at); !ok {
			t.Fatalf("refused, for %s, within the burst", wait)
		}
	}
	wait, ok := r.Take(User{"acme", "ann"}, at)
	if ok || wait != 250*time.Millisecond {
		t.Fatalf("got %s, %t; want a wait of 250ms", wait, ok)
	}
	if _, ok := r.Take(User{"acme", "bob"}, at); !ok {
		t.Error("another user is refused")
	}
	now = now.Add(wait - time.Millisecond)
	if _, ok := r.Take(User{"acme", "ann"}, at); ok {
		t.Error("taken before its time")
	}
	now = now.Add(time.Millisecond)
	if wait, ok := r.Take(User{"acme", "ann"}, at); !ok {
		t.Errorf("refused, for %s, when its time has come", wait)
	}
	if _, ok := r.Take(User{"acme", "ann"}, Rate{}); !ok {
		t.Error("refused without a limit")
	}
}

func TestRates_BucketsAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRates()
	r.now, r.most = func() time.Time { return now }, 10
	at := Rate{PerSecond: 1, Burst: 1}
	refused := 0
	for i := range 50 {
		if _, ok := r.Take(User{"acme", agent.UserID(fmt.Sprint("u", i))}, at); !ok {
			refused++
		}
	}
	if len(r.buckets) != 10 || refused != 39 { // one took what the shared bucket had
		t.Errorf("%d buckets, %d refused", len(r.buckets), refused)
	}
	now = now.Add(2 * time.Second)
	if _, ok := r.Take(User{"acme", "new"}, at); !ok || len(r.buckets) != 1 {
		t.Errorf("taken: %t; %d buckets are left when all are full again", ok, len(r.buckets))
	}
}
