package storetest

import (
	"encoding/json"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func transcriptTests() []test {
	return []test{
		{"CompletedTurnsInOrder", transcript},
		{"RequestSentTwiceCountsOnce", askedTwice},
	}
}

func asked(items ...string) agent.Step {
	return agent.Step{Kind: agent.StepAsked, Asked: &agent.Asked{NewItems: raws(items)}}
}

func answered(items ...string) agent.Step {
	return agent.Step{Kind: agent.StepAnswered, Answered: &agent.Answered{Items: raws(items)}}
}

func raws(items []string) []json.RawMessage {
	var out []json.RawMessage
	for _, item := range items {
		out = append(out, json.RawMessage(item))
	}
	return out
}

// runTurn opens a turn, appends the steps and leaves it in the state.
func runTurn(t *testing.T, d *data, k agent.TurnKey, version int64, state agent.TurnState, steps ...agent.Step) {
	t.Helper()
	openTurn(t, d, userTurn(k, version))
	for i := range steps {
		steps[i].N, steps[i].FirstEvent, steps[i].At = i+2, int64(i)+2, at(i)
	}
	appendSteps(t, d, store.Append{Key: k, State: state, Steps: steps})
}

func wantTranscript(t *testing.T, d *data, id agent.SessionID, before int64, want ...string) {
	t.Helper()
	turns, err := d.Transcript(t.Context(), org, id, 0, before)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range store.Items(turns) {
		got = append(got, string(item))
	}
	same(t, "transcript", got, want)
}

func transcript(t *testing.T, d *data) {
	runTurn(t, d, key("s1", "z"), 0, agent.TurnCompleted,
		asked(`"q1"`, `{ "q" : "<1>" }`), answered(`"a1"`), asked(`"out1"`), answered(`"a2"`, `"a3"`))
	runTurn(t, d, key("s1", "failed"), 1, agent.TurnFailed, asked(`"q2"`), answered(`"a4"`))
	runTurn(t, d, key("s1", "cancelled"), 1, agent.TurnCancelled, asked(`"q3"`))
	runTurn(t, d, key("s1", "a"), 1, agent.TurnCompleted, asked(`"q4"`), answered(`"a5"`))
	runTurn(t, d, key("s1", "now"), 1, agent.TurnRunning, asked(`"q5"`), answered(`"a6"`))
	runTurn(t, d, key("s2", "z"), 0, agent.TurnCompleted, asked(`"other"`), answered(`"other"`))

	first := []string{`"q1"`, `{ "q" : "<1>" }`, `"a1"`, `"out1"`, `"a2"`, `"a3"`}
	both := append(first[:len(first):len(first)], `"q4"`, `"a5"`)
	d.reopen(t)
	wantTranscript(t, d, "s1", 0, both...)
	wantTranscript(t, d, "s1", 1)
	wantTranscript(t, d, "s1", 2, first...)
	wantTranscript(t, d, "s1", 4, first...)
	wantTranscript(t, d, "s1", 5, both...)
	wantTranscript(t, d, "s3", 0)
	// Turn by turn, from one on.
	turns, err := d.Transcript(t.Context(), org, "s1", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the turns after the first", turns, []store.TurnItems{{Ordinal: 4, Items: raws([]string{`"q4"`, `"a5"`})}})
}

func askedTwice(t *testing.T, d *data) {
	resumed := agent.Step{Kind: agent.StepResumed, Resumed: &agent.Resumed{}}
	runTurn(t, d, key("s1", "t1"), 0, agent.TurnCompleted, asked(`"q1"`), resumed, asked(`"q1"`), answered(`"a1"`))
	wantTranscript(t, d, "s1", 0, `"q1"`, `"a1"`)
}
