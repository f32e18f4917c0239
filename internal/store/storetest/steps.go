package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func stepTests() []test {
	return []test{
		{"JournalComesBackAsItWasWritten", journal},
		{"TransitionFromAnotherStateIsRefused", wrongState},
		{"JournalOfASettledTurnIsClosed", closedJournal},
		{"StepsThatDoNotFollowOnAreRefused", stepsOutOfOrder},
		{"UnsetMembersStay", unsetMembers},
		{"UnknownTurnIsNotFound", unknownTurn},
	}
}

// raw is JSON that an encoder would rewrite.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

func wholeJournal() []agent.Step {
	call := agent.ToolCall{ID: "call_1", Name: "agent_change_mode", Arguments: `{"mode": "ddr_authoring"`}
	result := agent.ToolResult{CallID: "call_1", Name: "agent_change_mode", Result: `{"success":true}`, Ms: 3,
		By: agent.ByServer, Code: agent.OutcomeOK}
	steps := []agent.Step{
		{Kind: agent.StepAsked, Asked: &agent.Asked{Call: 1, Mode: agent.ModeGeneral, Canonical: "{\"a\":\"<&>\"}", CanonicalSHA256: "c",
			WireHead: "{\"input\":[", Replayed: 2, NewItems: []json.RawMessage{raw("{ \"type\" : \"message\" }"), raw(`{"t":"<&>\u00e9"}`)},
			WireTail: "]}", WireSHA256: "w"}},
		{Kind: agent.StepAnswered, Answered: &agent.Answered{Call: 1, ResponseID: "resp_1",
			Items: []json.RawMessage{raw("{\n  \"type\": \"function_call\",\n  \"a\": \"\\ud800 <&>\"\n}\n")},
			Usage: agent.Usage{InputTokens: 5, OutputTokens: 7, TotalTokens: 12}, Deltas: []string{"Hel", "lo\n"}}},
		{Kind: agent.StepToolStarted, ToolStarted: &call},
		{Kind: agent.StepToolFinished, ToolFinished: &agent.ToolFinished{Result: result,
			ModeSwitch: &agent.ModeSwitch{PreviousMode: agent.ModeGeneral, Mode: "ddr_authoring", Reason: "r"}}},
		{Kind: agent.StepWaiting, Waiting: &agent.Delivery{Response: raw(`{ "kind" : "client_tool_continuation" }`), Calls: []agent.ToolCall{call}}},
		{Kind: agent.StepContinued, Continued: &agent.Continued{Results: []agent.ToolResult{result}, SHA256: "r"}},
		{Kind: agent.StepResumed, Resumed: &agent.Resumed{ReplaceFrom: 4}},
		{Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnFailed, Response: raw(`{ "kind" : "final" }`),
			Fault:     &agent.Fault{Kind: agent.KindProviderFailed, Message: "m", Violations: []agent.Violation{{Pointer: "/a", Rule: "r", Message: "m"}}},
			Abandoned: []agent.ToolResult{result}}},
	}
	for i := range steps {
		steps[i].N, steps[i].FirstEvent, steps[i].At = i+2, int64(10*i), at(i).UTC()
	}
	return steps
}

func journal(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	want := wholeJournal()
	appendSteps(t, d, store.Append{Key: k, State: agent.TurnRunning, Steps: want[:3]})
	for i := 3; i < len(want); i++ {
		appendSteps(t, d, store.Append{Key: k, Steps: want[i : i+1]})
	}
	same(t, "the caller's steps", want, wholeJournal())
	d.reopen(t)
	got, err := d.Steps(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "journal", got[1:], want)
	if turn := readTurn(t, d, k); turn.State != agent.TurnRunning || !turn.UpdatedAt.Equal(at(len(want)-1)) {
		t.Errorf("the turn is %s since %s", turn.State, turn.UpdatedAt)
	}
}

func wrongState(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	resumed := agent.Step{N: 2, Kind: agent.StepResumed, FirstEvent: 2, At: at(2), Resumed: &agent.Resumed{}}
	last := "resp_1"
	err := d.AppendSteps(t.Context(), store.Append{Key: k, Steps: []agent.Step{resumed}, State: agent.TurnRunning,
		From: []agent.TurnState{agent.TurnWaiting}, Response: raw(`{}`), LastResponseID: &last})
	if !errors.Is(err, store.ErrState) {
		t.Fatalf("got %v, want ErrState", err)
	}
	if turn := readTurn(t, d, k); turn.State != agent.TurnAccepted || turn.Response != nil {
		t.Errorf("the refused transition left state %s and response %s", turn.State, turn.Response)
	}
	if steps, err := d.Steps(t.Context(), k); err != nil || len(steps) != 1 {
		t.Errorf("the refused transition left %d steps (error %v)", len(steps), err)
	}
	if got := session(t, d, "s1").LastResponseID; got != "" {
		t.Errorf("the refused transition left last response %q", got)
	}
	appendSteps(t, d, store.Append{Key: k, Steps: []agent.Step{resumed}, State: agent.TurnRunning,
		From: []agent.TurnState{agent.TurnWaiting, agent.TurnAccepted}})
}

func closedJournal(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	settle(t, d, k, 1)
	late := agent.Step{N: 3, Kind: agent.StepResumed, FirstEvent: 3, At: at(9), Resumed: &agent.Resumed{}}
	if err := d.AppendSteps(t.Context(), store.Append{Key: k, Steps: []agent.Step{late}}); !errors.Is(err, store.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
	if err := d.AppendSteps(t.Context(), store.Append{Key: k, State: agent.TurnCancelled}); !errors.Is(err, store.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
	if got := readTurn(t, d, k).State; got != agent.TurnCompleted {
		t.Errorf("the turn is %s, want completed", got)
	}
}

func stepsOutOfOrder(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	step := func(n int) agent.Step {
		return agent.Step{N: n, Kind: agent.StepResumed, FirstEvent: 2, At: at(2), Resumed: &agent.Resumed{}}
	}
	for _, tt := range []struct {
		name  string
		steps []agent.Step
	}{
		{"a number that is taken", []agent.Step{step(1)}},
		{"a gap", []agent.Step{step(3)}},
		{"a gap behind a good one", []agent.Step{step(2), step(4)}},
		{"a repeat behind a good one", []agent.Step{step(2), step(2)}},
	} {
		err := d.AppendSteps(t.Context(), store.Append{Key: k, State: agent.TurnRunning, Steps: tt.steps})
		if !errors.Is(err, store.ErrState) {
			t.Errorf("%s: got %v, want ErrState", tt.name, err)
		}
	}
	if got := readTurn(t, d, k).State; got != agent.TurnAccepted {
		t.Errorf("the turn is %s, want accepted", got)
	}
	appendSteps(t, d, store.Append{Key: k, State: agent.TurnRunning, Steps: []agent.Step{step(2), step(3)}})
}

func unsetMembers(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	last := "resp_1"
	fault := agent.Fault{Kind: agent.KindProviderFailed, Message: "m"}
	appendSteps(t, d, store.Append{Key: k, State: agent.TurnWaiting, Response: raw(`{ "kind" : 1 }`), Fault: &fault,
		ContinuationSHA256: "c1", Deadline: at(30), LastResponseID: &last})
	check := func(when string) {
		t.Helper()
		turn := readTurn(t, d, k)
		if string(turn.Response) != `{ "kind" : 1 }` || turn.ContinuationSHA256 != "c1" || !turn.Deadline.Equal(at(30)) {
			t.Errorf("%s: got response %s, continuation %q, deadline %s", when, turn.Response, turn.ContinuationSHA256, turn.Deadline)
		}
		same(t, when+": fault", turn.Fault, &fault)
		if got := session(t, d, "s1").LastResponseID; got != last {
			t.Errorf("%s: last response is %q, want %q", when, got, last)
		}
	}
	check("as set")
	appendSteps(t, d, store.Append{Key: k, State: agent.TurnRunning})
	d.reopen(t)
	check("after a transition that sets none")

	// Set to nothing is set: the next request begins anew.
	last = ""
	appendSteps(t, d, store.Append{Key: k, LastResponseID: &last})
	check("after the reset")
}

func unknownTurn(t *testing.T, d *data) {
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	_, err := d.Turn(t.Context(), key("s1", "nope"))
	wantKind(t, err, agent.KindNotFound)
	_, err = d.Steps(t.Context(), key("s1", "nope"))
	wantKind(t, err, agent.KindNotFound)
	wantKind(t, d.AppendSteps(t.Context(), store.Append{Key: key("s1", "nope"), State: agent.TurnRunning}), agent.KindNotFound)
}
