package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/natstest"
)

func TestFollow_ACopyHasWhatTheOwnerHas(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 4)
	for range 20 {
		u.show()
	}
	copied := must(t, reader, key, 7)
	if copied.First() != 4 {
		t.Errorf("the copy begins at %d, want 4", copied.First())
	}
	for range 20 {
		u.show()
		await(t, copied, u.log.Next()) // each comes by itself
	}
	u.end()
	same(t, all(t, copied, 0), u.events)
	same(t, all(t, copied, 30), u.events[27:])
}

func TestFollow_AcrossAClusterOfNATS(t *testing.T) {
	var nodes []*node
	for _, s := range natstest.Cluster(t, 3) {
		nodes = append(nodes, start(t, s.URL()))
	}
	connected(t, nodes...)
	u := begin(nodes[0], key, 1)
	u.show()
	// How soon the servers know of each other's subscriptions is theirs to say.
	eventually(t, "the others find the turn", func() bool {
		_, one := nodes[1].Follow(t.Context(), key, 0)
		_, two := nodes[2].Follow(t.Context(), key, 0)
		return one && two
	})
	one, two := must(t, nodes[1], key, 0), must(t, nodes[2], key, 0)
	for range 100 {
		u.show()
	}
	u.end()
	same(t, all(t, one, 0), u.events)
	same(t, all(t, two, 0), u.events)
}

func TestFollow_NobodyHasTheTurn(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.AnswerTime = 250 * time.Millisecond })
	if _, ok := reader.Follow(t.Context(), key, 0); ok {
		t.Error("a copy of a turn that runs nowhere")
	}

	over := begin(owner, key, 1)
	over.show()
	over.log.Close()
	if log, ok := reader.Follow(t.Context(), key, 0); !ok {
		t.Error("a log that was closed just now is not found")
	} else {
		same(t, all(t, log, 0), over.events)
	}
	if _, ok := reader.Follow(t.Context(), key, 1); ok {
		t.Error("a copy of a closed log for a reader who has seen all of it")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := reader.Follow(ctx, key, 0); ok {
		t.Error("a copy for a reader who has left")
	}
	if n := len(reader.replicas); n != 0 {
		t.Errorf("%d replicas are left", n)
	}
}

// NATS itself says that there is nobody to ask, so this one does not wait.
func TestFollow_WithoutAnotherNode(t *testing.T) {
	alone := start(t, natstest.Start(t).URL(), func(c *Config) { c.AnswerTime = time.Hour })
	connected(t, alone)
	if _, ok := alone.Follow(t.Context(), key, 0); ok {
		t.Error("a copy from nowhere")
	}
}

// A turn of another organisation has the same ids; hostile ids look like subjects.
func TestFollow_OnlyTheVeryTurn(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.AnswerTime = 250 * time.Millisecond })
	keys := []agent.TurnKey{key, {Org: "globex", Session: "s1", Turn: "t1"}, {Org: "acme/s1", Session: "t1", Turn: "t1"},
		{Org: "a.*.>", Session: "$SYS", Turn: "\x00 \r\n"}, {Org: "", Session: ">", Turn: "é"}}
	var turns []*turn
	for i, k := range keys {
		u := begin(owner, k, 1)
		for range i + 1 {
			u.append(agent.Event{Type: agent.EventTextDelta, Sequence: u.log.Next(), SessionID: k.Session, TurnID: k.Turn, Text: k.String()})
		}
		turns = append(turns, u)
	}
	for _, u := range turns {
		log := must(t, reader, u.key, 0)
		u.log.Close()
		same(t, all(t, log, 0), u.events)
	}
	for _, stranger := range []agent.TurnKey{{Org: "initech", Session: "s1", Turn: "t1"}, {Org: "acme", Session: "s1", Turn: "T1"}} {
		if _, ok := reader.Follow(t.Context(), stranger, 0); ok {
			t.Errorf("a copy for %q", stranger)
		}
	}
}

// A part that has come to the wrong place is not shown there, whatever its subject says.
func TestFollow_APartOfAnotherTurnIsNotShown(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)
	reader.mu.Lock()
	inbox := reader.replicas[key].inbox
	reader.mu.Unlock()
	theirs := key
	theirs.Org = "globex"
	owner.send(inbox, "", part{header: headerOf(theirs), Node: owner.node, First: 1, From: 2, Events: []event{{sample(theirs, 2)}}})
	eventually(t, "the part is refused", func() bool { return reader.malformed.total() == 1 })
	u.end()
	same(t, all(t, log, 0), u.events)
}

func TestFollow_PrefixesKeepClustersApart(t *testing.T) {
	url := natstest.Start(t).URL()
	one := start(t, url)
	other := start(t, url, func(c *Config) { c.Prefix = "aptix.test-2"; c.AnswerTime = 250 * time.Millisecond })
	third := start(t, url, func(c *Config) { c.Prefix = "aptix.test-2" })
	connected(t, one, other, third)
	u := begin(one, key, 1)
	u.show()
	defer u.log.Close()
	if _, ok := other.Follow(t.Context(), key, 0); ok {
		t.Error("a copy from another cluster")
	}
	moved := make(chan agent.TurnKey, 10)
	third.OnMoved(func(k agent.TurnKey) { moved <- k })
	one.Moved(key)
	other.Moved(agent.TurnKey{Session: "s2", Turn: "t2"})
	if got := <-moved; got.Session != "s2" {
		t.Errorf("a hint from another cluster: %v", got)
	}
}

func TestFollow_ALongLogComesInPieces(t *testing.T) {
	// Servers may take less than they do by default.
	url := natstest.Start(t, func(o *server.Options) { o.MaxPayload = 200 << 10 }).URL()
	never := func(c *Config) { c.Silence = time.Hour } // one piece asks for the next
	owner, reader := start(t, url, never), start(t, url, never)
	connected(t, owner, reader)
	u := begin(owner, key, 1)
	for range 300 {
		e := sample(key, 1)
		e.Sequence, e.Text = u.log.Next(), strings.Repeat("\x01", 5000)
		u.append(e)
	}
	copied := must(t, reader, key, 0)
	await(t, copied, u.log.Next())
	for range 50 {
		u.show()
	}
	await(t, copied, u.log.Next()) // whoever comes after the end may find the log forgotten
	u.end()
	same(t, all(t, copied, 0), u.events)
}

func TestFollow_AnEventThatIsTooLarge(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.AnswerTime = 500 * time.Millisecond })
	u := begin(owner, key, 1)
	u.show()
	copied := must(t, reader, key, 0)
	u.show()
	large := sample(key, 1)
	large.Sequence, large.Text = 3, strings.Repeat("x", maxEvent)
	u.append(large)
	u.show()
	defer u.log.Close()
	same(t, all(t, copied, 0), u.events[:2]) // closed before it, though the turn goes on
	again := must(t, reader, key, 1)
	same(t, all(t, again, 0), u.events[:2])
	// Whoever has seen that much has to look elsewhere.
	if _, ok := reader.Follow(t.Context(), key, 2); ok {
		t.Error("a copy that cannot have the next event")
	}
}

func TestFollow_ReadersOfATurnShareOneCopy(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 1)
	u.show()
	var work sync.WaitGroup
	results := make([][]agent.Event, 1000)
	for i := range results {
		work.Go(func() { results[i] = all(t, must(t, reader, key, int64(i%3)), int64(i%3)) })
	}
	eventually(t, "all follow", func() bool {
		reader.mu.Lock()
		defer reader.mu.Unlock()
		r := reader.replicas[key]
		return r != nil && len(r.readers) == len(results)
	})
	for range 200 {
		u.show()
	}
	u.end()
	work.Wait()
	for i, got := range results {
		same(t, got, u.events[i%3:])
	}
	if n := owner.wire.count(); n > 250 {
		t.Errorf("the owner has sent %d messages for 202 events", n)
	}
	if reader.made != 1 {
		t.Errorf("%d copies were made, want 1", reader.made)
	}
}

func TestFollow_ATurnThatNobodyFollowsCostsNothing(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.Silence = 300 * time.Millisecond })
	before := owner.nats.NumSubscriptions()
	u := begin(owner, key, 1)
	defer u.log.Close()
	for range 100 {
		u.show()
	}
	if n := owner.wire.count(); n != 0 {
		t.Errorf("%d messages though nobody follows", n)
	}
	ctx, leave := context.WithCancel(t.Context())
	for range 10 {
		if _, ok := reader.Follow(ctx, key, 0); !ok {
			t.Fatal("the turn is not found")
		}
	}
	if n := owner.nats.NumSubscriptions(); n != before {
		t.Errorf("the owner has %d subscriptions, had %d", n, before)
	}
	leave()
	eventually(t, "the copy ends with its last reader", func() bool {
		reader.mu.Lock()
		defer reader.mu.Unlock()
		return len(reader.replicas) == 0 && len(reader.inboxes) == 0
	})
	eventually(t, "the owner stops sending", func() bool {
		owner.mu.Lock()
		defer owner.mu.Unlock()
		return len(owner.feeds) == 0
	})
	n := owner.wire.count()
	for range 100 {
		u.show()
	}
	if owner.wire.count() != n {
		t.Error("the owner sends though nobody follows")
	}
}

// feedOf returns what sends the turn to others.
func feedOf(owner *node) *feed {
	owner.mu.Lock()
	defer owner.mu.Unlock()
	return owner.feeds[key]
}

// A copy is followed for as long as it is read, however long nothing happens in the turn.
func TestFollow_OutlastsAPause(t *testing.T) {
	owner, reader := pair(t, func(c *Config) { c.Silence = 300 * time.Millisecond })
	u := begin(owner, key, 1)
	u.show()
	copied := must(t, reader, key, 0)
	feed, sent := feedOf(owner), owner.wire.count()
	eventually(t, "the owner was asked many times", func() bool { return owner.wire.count() > sent+15 }) // 1.5 s
	if feedOf(owner) != feed {
		t.Error("the owner has stopped sending meanwhile")
	}
	for range 10 {
		u.show()
	}
	u.end()
	same(t, all(t, copied, 0), u.events)
}

func TestFollow_ManyTurnsAtOnce(t *testing.T) {
	owner, reader := pair(t)
	turns := make([]*turn, 1000)
	for i := range turns {
		turns[i] = begin(owner, agent.TurnKey{Org: "acme", Session: agent.SessionID(fmt.Sprint("s", i)), Turn: "t"}, 1)
		turns[i].show()
	}
	var work sync.WaitGroup
	var live atomic.Int64
	for _, u := range turns {
		log, done := must(t, reader, u.key, 0), make(chan struct{})
		await(t, log, 2)
		work.Go(func() { live.Add(int64(readOn(t, reader, u, done))) })
		work.Go(func() {
			defer close(done)
			for range 50 {
				u.show()
			}
			u.end()
		})
	}
	work.Wait()
	t.Logf("%d of %d events came live", live.Load(), 52*len(turns))
	if n := len(reader.replicas); n != 0 {
		t.Errorf("%d copies are left", n)
	}
	eventually(t, "the owner has no feeds any more", func() bool {
		owner.mu.Lock()
		defer owner.mu.Unlock()
		return len(owner.feeds) == 0
	})
}

// Two nodes believe that a turn is theirs: one was paused and does not know yet that it
// has lost it. The later log counts.
func TestFollow_TheLaterOwnerCounts(t *testing.T) {
	late, reader := pair(t)
	next := start(t, reader.Servers.Reveal())
	connected(t, next)
	old := begin(late, key, 1)
	defer old.log.Close()
	old.show()
	new := begin(next, key, 5)
	new.show()
	log := must(t, reader, key, 0)
	if log.First() != 5 { // the earlier one was quicker
		all(t, log, 0) // and is closed
		log = must(t, reader, key, 0)
	}
	await(t, log, 6)
	reader.mu.Lock()
	inbox := reader.replicas[key].inbox
	reader.mu.Unlock()
	// The earlier one goes on with its own text, under numbers that the later one gives too.
	void := agent.Event{Type: agent.EventTextDelta, Text: "void"}
	late.send(inbox, "", part{header: headerOf(key), Node: late.node, First: 1, From: 6, Events: []event{{void}}})
	if err := late.nats.Flush(); err != nil {
		t.Fatal(err)
	}
	new.show()
	await(t, log, 7)
	new.end()
	same(t, all(t, log, 0), new.events)
}

// The same node takes its own turn up again, as after it has waited for its client.
func TestFollow_TheNextLogOfATurn(t *testing.T) {
	owner, reader := pair(t)
	first := begin(owner, key, 1)
	first.show()
	log := must(t, reader, key, 0)
	second := begin(owner, key, 2) // which closes the first
	second.show()
	same(t, all(t, log, 0), first.events)
	log = must(t, reader, key, 1)
	second.end()
	same(t, all(t, log, 0), second.events)
}

// A reader who knows from elsewhere that the owner has lost the turn ends its copy.
func TestFollow_ACopyThatAReaderHasClosed(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)
	log.Close()
	again := must(t, reader, key, 0)
	if again == log {
		t.Fatal("the closed copy is given out again")
	}
	u.end()
	same(t, all(t, again, 0), u.events)
}

// A turn that was taken over just now has shown nothing yet, and its log begins far behind
// what the reader has seen.
func TestFollow_ALogThatBeginsLaterAndIsEmpty(t *testing.T) {
	owner, reader := pair(t)
	u := begin(owner, key, 14)
	copied := must(t, reader, key, 2)
	u.show()
	await(t, copied, u.log.Next())
	u.end()
	same(t, all(t, copied, 0), u.events)
}
