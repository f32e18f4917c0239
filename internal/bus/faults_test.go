package bus

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/natstest"
)

// show100 shows a turn at some pace and ends it; done is closed when the journal has all
// of it.
func show100(u *turn, done chan<- struct{}) {
	defer close(done)
	for range 100 {
		u.show()
		time.Sleep(2 * time.Millisecond) // a model's, so that parts are many
	}
	u.end()
}

// readOn reads a turn as a reader does: from copies, as often as they are lost, and
// what they did not have from the journal at last. It returns how much came live.
func readOn(t *testing.T, n *node, u *turn, done <-chan struct{}) (live int) {
	var got []agent.Event
	for {
		if log, ok := n.Follow(t.Context(), u.key, int64(len(got))); ok {
			got = append(got, all(t, log, int64(len(got)))...)
			continue
		}
		select {
		case <-done:
			live = len(got)
			got = append(got, u.events[min(len(got), len(u.events)):]...)
			if diff := cmp.Diff(u.events, got); diff != "" {
				t.Errorf("turn %s differs (-want +got):\n%s", u.key, diff)
			}
			return live
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// One message of ten is lost, one doubled, one overtaken by the next, on every node.
func TestFaults_MessagesLostDoubledReordered(t *testing.T) {
	servers := natstest.Cluster(t, 3)
	var nodes []*node
	for i, s := range servers {
		nodes = append(nodes, start(t, s.URL(), func(c *Config) { c.AnswerTime = 100 * time.Millisecond }))
		nodes[i].wire.disturb(10, uint64(i))
	}
	connected(t, nodes...)
	var work sync.WaitGroup
	var mu sync.Mutex
	live, whole := 0, 0
	for i := range 60 {
		u := begin(nodes[i%3], agent.TurnKey{Org: "acme", Session: agent.SessionID(fmt.Sprint("s", i)), Turn: "t"}, 1)
		u.show()
		done := make(chan struct{})
		var found sync.WaitGroup
		for _, n := range []*node{nodes[(i+1)%3], nodes[(i+2)%3]} {
			found.Add(1)
			work.Go(func() {
				for ok := false; !ok; {
					_, ok = n.Follow(t.Context(), u.key, 0)
				}
				found.Done()
				l := readOn(t, n, u, done)
				mu.Lock()
				defer mu.Unlock()
				live, whole = live+l, whole+len(u.events)
			})
		}
		work.Go(func() {
			found.Wait()
			show100(u, done)
		})
	}
	work.Wait()
	t.Logf("%d of %d events came live", live, whole)
	if live < whole/100 {
		t.Errorf("%d of %d events came live: this shows nothing", live, whole)
	}
}

// Whoever sees that something is missing asks for it at once.
func TestFaults_AGapIsFilledWhenItIsSeen(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.Silence = time.Hour })
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)
	u.show()
	await(t, log, 3)
	sent := owner.wire.count()
	owner.wire.kill(true)
	u.show()
	eventually(t, "a message is lost", func() bool { return owner.wire.count() == sent+1 })
	owner.wire.kill(false)
	u.show()
	await(t, log, 5)
	u.end()
	same(t, all(t, log, 0), u.events)
}

// NATS goes away and comes back while turns are followed.
func TestFaults_NATSStopsAndComesBack(t *testing.T) {
	s := natstest.Start(t)
	owner, reader := start(t, s.URL()), start(t, s.URL())
	connected(t, owner, reader)
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)

	s.Stop()
	eventually(t, "both know", func() bool { return !owner.Connected() && !reader.Connected() })
	if _, ok := reader.Follow(t.Context(), agent.TurnKey{Session: "s2", Turn: "t1"}, 0); ok {
		t.Error("a copy without NATS")
	}
	for range 20 {
		u.show()
		owner.Moved(key)
	}
	s.Again(t)
	eventually(t, "both are back", func() bool { return owner.Connected() && reader.Connected() })
	u.show()
	eventually(t, "the copy is what it was, or another one is", func() bool {
		again, ok := reader.Follow(t.Context(), key, 0)
		return ok && again.Next() == u.log.Next()
	})
	again := must(t, reader, key, 0)
	u.end()
	same(t, all(t, again, 0), u.events)
	if got := all(t, log, 0); len(got) < len(u.events) {
		same(t, got, u.events[:len(got)])
	}
}

// An owner that is gone without a word takes its copies along, soon.
func TestFaults_TheOwnerDies(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.Silence = 300 * time.Millisecond })
	u := begin(owner, key, 1)
	defer u.log.Close()
	for range 10 {
		u.show()
	}
	log := must(t, reader, key, 0)
	await(t, log, 11)
	owner.wire.kill(true)
	u.show()
	same(t, all(t, log, 0), u.events[:10])
	owner.wire.kill(false) // it was only paused
	u.show()
	again := must(t, reader, key, 10)
	u.end()
	same(t, all(t, again, 10), u.events[10:])
}

// A node that stops tells those who follow its turns.
func TestClose_EndsTheCopiesOfOthers(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.Silence = time.Hour })
	u := begin(owner, key, 1)
	defer u.log.Close()
	u.show()
	log := must(t, reader, key, 0)
	u.show()
	owner.Close()
	owner.Close()
	same(t, all(t, log, 0), u.events)
	if _, ok := owner.Follow(t.Context(), key, 0); ok {
		t.Error("a copy from a bus that is closed")
	}
}

func TestClose_EndsItsOwnCopies(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 1)
	defer u.log.Close()
	u.show()
	log := must(t, reader, key, 0)
	reader.Close()
	same(t, all(t, log, 0), u.events)
}

// A copy whose goroutine does not get to its messages loses some, and asks for them.
func TestFaults_MoreThanAReplicaCanHold(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.AnswerTime = 200 * time.Millisecond })
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)
	reader.mu.Lock() // whoever hands messages out waits for it, and so does the replica
	for range 10 * maxUnread {
		u.show()
	}
	time.Sleep(50 * time.Millisecond)
	reader.mu.Unlock()
	await(t, log, u.log.Next())
	u.end()
	same(t, all(t, log, 0), u.events)
}

func TestOpen_StartsWithoutNATSAndConnectsLater(t *testing.T) {
	s := natstest.Start(t)
	s.Stop()
	n, other := start(t, s.URL()), start(t, "nats://127.0.0.1:1,"+s.URL())
	if n.Connected() {
		t.Error("connected to nothing")
	}
	for range 2 * maxMoves {
		n.Moved(key) // nobody waits
	}
	if _, ok := n.Follow(t.Context(), key, 0); ok {
		t.Error("a copy without NATS")
	}
	eventually(t, "hints that cannot go out are dropped", func() bool { return n.dropped.Load() == 2*maxMoves })
	s.Again(t)
	connected(t, n, other)
	u := begin(other, key, 1)
	u.show()
	log := must(t, n, key, 0)
	u.end()
	same(t, all(t, log, 0), u.events)
}
