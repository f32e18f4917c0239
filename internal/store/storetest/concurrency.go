package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
)

func concurrencyTests() []test {
	return []test{
		{"OneOfManyTurnsWins", oneTurnWins},
		{"OneOfManyRepeatsWins", oneRepeatWins},
		{"OneOfManyTransitionsWins", oneTransitionWins},
		{"ModeChangesMakeAChain", modeChain},
		{"SessionsDoNotDisturbEachOther", manySessions},
	}
}

const crowd = 32

// together runs do for 0 … crowd-1 at the same time and returns the errors.
func together(do func(i int) error) []error {
	errs := make([]error, crowd)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// winner returns the index of the one success.
func winner(t *testing.T, errs []error) int {
	t.Helper()
	won := -1
	for i, err := range errs {
		if err == nil && won >= 0 {
			t.Fatalf("both %d and %d have won", won, i)
		}
		if err == nil {
			won = i
		}
	}
	if won < 0 {
		t.Fatalf("nobody has won: %v", errs[0])
	}
	return won
}

func oneTurnWins(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	id := func(i int) agent.TurnID { return agent.TurnID(fmt.Sprint("t", i)) }
	errs := together(func(i int) error {
		err := d.OpenTurn(t.Context(), userTurn(key("s1", id(i)), 1))
		return err
	})
	won := winner(t, errs)
	for i, err := range errs {
		if active := (*store.ActiveError)(nil); i != won && (!errors.As(err, &active) || active.Turn != id(won)) {
			t.Errorf("loser %d got %v, want an ActiveError that names %s", i, err, id(won))
		}
	}
	if got := session(t, d, "s1").Turns; got != 1 {
		t.Errorf("the session counts %d turns, want 1", got)
	}
}

func oneRepeatWins(t *testing.T, d *data) {
	errs := together(func(int) error {
		err := d.OpenTurn(t.Context(), userTurn(key("s1", "t1"), 0))
		return err
	})
	won := winner(t, errs)
	for i, err := range errs {
		if i != won && !errors.Is(err, store.ErrExists) {
			t.Errorf("loser %d got %v, want ErrExists", i, err)
		}
	}
}

func oneTransitionWins(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	states := []agent.TurnState{agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled}
	errs := together(func(i int) error {
		state := states[i%len(states)]
		return d.AppendSteps(t.Context(), store.Append{Key: k, State: state, Steps: []agent.Step{
			{N: 2, Kind: agent.StepSettled, FirstEvent: 2, At: at(i), Settled: &agent.Settled{State: state}}}})
	})
	won := winner(t, errs)
	for i, err := range errs {
		if i != won && !errors.Is(err, store.ErrState) {
			t.Errorf("loser %d got %v, want ErrState", i, err)
		}
	}
	steps, err := d.Steps(t.Context(), k)
	if err != nil || len(steps) != 2 {
		t.Fatalf("got %d steps (error %v), want 2", len(steps), err)
	}
	if got := readTurn(t, d, k).State; got != states[won%len(states)] || steps[1].Settled.State != got {
		t.Errorf("the turn is %s, its journal says %s, the winner %s", got, steps[1].Settled.State, states[won%len(states)])
	}
}

func modeChain(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.2-d", "AGN011-5.7-a", "AGN011-5.7-e")
	create(t, d, newSession("s1"))
	modes := []agent.ModeKey{agent.ModeGeneral, "ddr_authoring", "workflow_authoring"}
	stood := make([]bool, crowd)
	errs := together(func(i int) (err error) {
		_, _, stood[i], err = d.ChangeMode(t.Context(), agent.ModeChange{Org: org, Session: "s1", Mode: modes[i%len(modes)],
			Reason: fmt.Sprint("reason ", i), At: at(i), Turn: "t1", Call: agent.CallID(fmt.Sprint("call_", i))})
		return err
	})
	rows := 0
	for i, err := range errs {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
		if stood[i] {
			rows++
		}
	}
	got := history(t, d, "s1")
	if len(got) != rows {
		t.Errorf("the history has %d rows, but %d changes were said to stand", len(got), rows)
	}
	checkChain(t, session(t, d, "s1"), got)
}

func manySessions(t *testing.T, d *data) {
	errs := together(func(i int) error {
		k := key(agent.SessionID(fmt.Sprint("s", i%8)), agent.TurnID(fmt.Sprint("t", i)))
		err := d.OpenTurn(t.Context(), userTurn(k, 0))
		if errors.Is(err, store.ErrVersion) { // somebody else has created the session
			err = d.OpenTurn(t.Context(), userTurn(k, 1))
		}
		if active := (*store.ActiveError)(nil); errors.As(err, &active) {
			return nil
		}
		if err != nil {
			return err
		}
		return d.AppendSteps(t.Context(), store.Append{Key: k, State: agent.TurnCompleted})
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("turn %d: %v", i, err)
		}
	}
	for i := range 8 {
		id := agent.SessionID(fmt.Sprint("s", i))
		turns, _, err := d.Turns(t.Context(), org, id, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if got := session(t, d, id).Turns; got != int64(len(turns)) || got == 0 {
			t.Errorf("session %s counts %d turns and has %d", id, got, len(turns))
		}
		for j, turn := range turns {
			if turn.Ordinal != int64(j)+1 {
				t.Errorf("turn %d of session %s has ordinal %d", j, id, turn.Ordinal)
			}
		}
	}
}
