package pipeline_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/invariants"
	"github.com/aptixhq/aptix/internal/store"
)

// verify holds the scenario to what is true of every turn (the invariants of the
// journal).
func (sc *scenario) verify() {
	sc.t.Helper()
	ctx := sc.t.Context()
	for _, id := range sc.turns {
		key := agent.TurnKey{Org: caller.Org, Session: sc.session, Turn: id}
		turn, err := sc.store.Turn(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		steps, err := sc.store.Steps(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		checkJournal(sc.t, turn, steps)
		sc.verifyRequests(turn)
		var all []agent.Event
		for e, err := range sc.pipeline.Follow(ctx, key, 0) {
			if err != nil {
				sc.t.Fatal(err)
			}
			all = append(all, e)
		}
		for cut := range all { // resuming anywhere gives the rest, no gap, no repeat
			var rest []agent.Event
			for e, err := range sc.pipeline.Follow(ctx, key, int64(cut)) {
				if err != nil {
					sc.t.Fatal(err)
				}
				rest = append(rest, e)
			}
			if diff := difference(rest, all[cut:]); diff != "" {
				sc.t.Errorf("turn %s followed after %d: -got +want\n%s", id, cut, diff)
			}
		}
	}
	if sc.session == "" {
		return
	}
	s, err := sc.store.Session(ctx, caller.Org, sc.session)
	if agent.KindOf(err) == agent.KindNotFound {
		return
	}
	history, _, err := sc.store.ModeHistory(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, w := range invariants.History(s, history) {
		sc.t.Error(w)
	}
}

// verifyRequests holds the turn's requests, read back after everything that came
// later, to their hashes, and what they cost to what the answer says.
func (sc *scenario) verifyRequests(turn agent.Turn) {
	sc.t.Helper()
	calls, err := sc.pipeline.Requests(sc.t.Context(), turn.Key)
	if err != nil {
		sc.t.Fatal(err)
	}
	var cost agent.Usage
	for i, c := range calls {
		if c.N != i+1 || c.At.IsZero() {
			sc.t.Errorf("turn %s: request %d is number %d of %s", turn.Key, i+1, c.N, c.At)
		}
		if c.Usage != nil {
			cost = cost.Add(*c.Usage)
		}
	}
	if turn.State != agent.TurnCompleted {
		return
	}
	var answer struct{ Usage agent.Usage }
	if err := json.Unmarshal(turn.Response, &answer); err != nil || answer.Usage != cost {
		sc.t.Errorf("turn %s: the answer cost %+v (%v), its requests %+v", turn.Key, answer.Usage, err, cost)
	}
}

// checkJournal checks the invariants of one turn's journal.
func checkJournal(t *testing.T, turn agent.Turn, steps []agent.Step) {
	t.Helper()
	for _, w := range invariants.Journal(turn, steps) {
		t.Error(w)
	}
}

// difference tells how two values differ. It is cmp.Diff, which takes its time even where
// there is nothing to tell: what is equal in every field is not shown to it.
func difference(want, got any, options ...cmp.Option) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, options...)
}
