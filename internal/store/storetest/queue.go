package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func queueTests() []test {
	return []test{
		{"QueuedTurnWaitsBesideTheActiveOne", queuedTurn},
		{"QueueIsInTheOrderOfArrival", queueOrder},
		{"QueuedTurnStartsAtItsVersionOnly", queuedStart},
		{"QueuedTurnExpires", queuedExpires},
		{"StandingOfNothing", standingOfNothing},
	}
}

// queuedUserTurn is a turn that waits for its session.
func queuedUserTurn(k agent.TurnKey) store.NewTurn {
	n := userTurn(k, 1)
	n.Turn.Queued = true
	n.Steps = []agent.Step{{N: 1, Kind: agent.StepQueued, FirstEvent: 1, At: at(1), Queued: &agent.Queued{Execution: raw(`{}`)}}}
	return n
}

// startTurn is the transition by which a queued turn begins.
func startTurn(k agent.TurnKey, version int64) store.Append {
	return store.Append{Key: k, State: agent.TurnAccepted, From: []agent.TurnState{agent.TurnAccepted}, Deadline: at(20),
		Start: &store.Start{SessionVersion: version, Mode: "ddr_authoring", Tools: json.RawMessage(`[ 1 ]`)},
		Steps: []agent.Step{{N: 2, Kind: agent.StepAccepted, FirstEvent: 2, At: at(2)}}}
}

func wantStanding(t *testing.T, d *data, k agent.TurnKey, known bool, active agent.TurnID, queued int) {
	t.Helper()
	got, err := d.Standing(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	sess := session(t, d, k.Session)
	same(t, "standing", got, store.Standing{Session: &sess, Known: known, Active: active, Queued: queued})
}

func wantIdleQueues(t *testing.T, d *data, want ...agent.TurnKey) {
	t.Helper()
	got, err := d.IdleQueues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "queues that stand still", got, append([]agent.TurnKey{}, want...))
}

func queuedTurn(t *testing.T, d *data) {
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	_, turn := openTurn(t, d, queuedUserTurn(key("s1", "t2")))
	if !turn.Queued || turn.State != agent.TurnAccepted || turn.Ordinal != 2 {
		t.Errorf("got %s, queued: %t, ordinal %d", turn.State, turn.Queued, turn.Ordinal)
	}
	wantStanding(t, d, key("s1", "t1"), true, "t1", 1)
	wantStanding(t, d, key("s1", "t3"), false, "t1", 1)
	wantIdleQueues(t, d)
	unfinished, err := d.Unfinished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "unfinished", unfinished, []agent.TurnKey{key("s1", "t1")})
	if err := d.OpenTurn(t.Context(), queuedUserTurn(key("s1", "t2"))); !errors.Is(err, store.ErrExists) {
		t.Errorf("queued again: got %v, want ErrExists", err)
	}

	// When the active one is over, the queue comes before whoever is new.
	settle(t, d, key("s1", "t1"), 1)
	d.reopen(t)
	wantIdleQueues(t, d, key("s1", ""))
	wantStanding(t, d, key("s1", "t3"), false, "", 1)
	err = d.OpenTurn(t.Context(), userTurn(key("s1", "t3"), 1))
	if active := (*store.ActiveError)(nil); !errors.As(err, &active) || active.Turn != "" {
		t.Errorf("past the queue: got %v, want an ActiveError that names none", err)
	}
	openTurn(t, d, queuedUserTurn(key("s1", "t4")))
	wantStanding(t, d, key("s1", "t3"), false, "", 2)
}

func queueOrder(t *testing.T, d *data) {
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	openTurn(t, d, userTurn(key("s2", "t1"), 0))
	for _, k := range []agent.TurnKey{key("s1", "z"), key("s1", "a"), key("s2", "b")} {
		openTurn(t, d, queuedUserTurn(k))
	}
	next := func(want agent.TurnID) {
		t.Helper()
		got, err := d.NextQueued(t.Context(), org, "s1")
		if want == "" {
			wantKind(t, err, agent.KindNotFound)
			return
		}
		if err != nil || got.Key != key("s1", want) {
			t.Errorf("got %s, %v; want %s", got.Key, err, want)
		}
	}
	next("z")
	appendSteps(t, d, store.Append{Key: key("s1", "z"), State: agent.TurnCancelled})
	next("a")
	// One that starts leaves the queue, too.
	settle(t, d, key("s1", "t1"), 1)
	appendSteps(t, d, startTurn(key("s1", "a"), 1))
	next("")
	wantStanding(t, d, key("s1", "a"), true, "a", 0)
}

func queuedStart(t *testing.T, d *data) {
	k := key("s1", "t2")
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	openTurn(t, d, queuedUserTurn(k))
	settle(t, d, key("s1", "t1"), 1)
	if _, _, _, err := d.ChangeMode(t.Context(), agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := d.AppendSteps(t.Context(), startTurn(k, 1)); !errors.Is(err, store.ErrVersion) {
		t.Errorf("from what was: got %v, want ErrVersion", err)
	}
	if turn := readTurn(t, d, k); !turn.Queued {
		t.Error("the refused start took it out of the queue")
	}
	appendSteps(t, d, startTurn(k, 2))
	turn := readTurn(t, d, k)
	if turn.Queued || turn.Mode != "ddr_authoring" || string(turn.Tools) != `[ 1 ]` || !turn.Deadline.Equal(at(20)) {
		t.Errorf("got queued %t, mode %s, tools %s, deadline %s", turn.Queued, turn.Mode, turn.Tools, turn.Deadline)
	}
	if err := d.AppendSteps(t.Context(), startTurn(k, 2)); !errors.Is(err, store.ErrState) {
		t.Errorf("started twice: got %v, want ErrState", err)
	}
}

func queuedExpires(t *testing.T, d *data) {
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	openTurn(t, d, queuedUserTurn(key("s1", "t2")))
	for minute, want := range map[int][]agent.TurnKey{10: {}, 11: {key("s1", "t2")}} {
		got, err := d.Expired(t.Context(), at(minute))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "expired", got, want)
	}
}

func standingOfNothing(t *testing.T, d *data) {
	got, err := d.Standing(t.Context(), key("nope", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "standing", got, store.Standing{})
}
