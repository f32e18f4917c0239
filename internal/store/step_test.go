package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func TestEncodeStep_KeepsItemsByteForByte(t *testing.T) {
	items := []json.RawMessage{
		json.RawMessage("{\n  \"type\": \"message\",\n  \"text\": \"<a> & b \\u00e9 \\ud800 \\u001e\"\n}\n"),
		json.RawMessage(`{"type":"message"}`),
		json.RawMessage(" \t\r\n[1.0, 1e400]\n\n"),
	}
	want := agent.Step{N: 3, Kind: agent.StepAnswered, Answered: &agent.Answered{Call: 1, Items: items}}
	data, stored, err := store.EncodeStep(want)
	if err != nil {
		t.Fatal(err)
	}
	if want.Answered.Items == nil {
		t.Error("the caller's step has lost its items")
	}
	got, err := store.DecodeStep(agent.Step{N: 3, Kind: agent.StepAnswered}, data, stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeStep_StoresItemsOnce(t *testing.T) {
	item := json.RawMessage(`"the item"`)
	for _, step := range []agent.Step{
		{Kind: agent.StepAsked, Asked: &agent.Asked{NewItems: []json.RawMessage{item}}},
		{Kind: agent.StepAnswered, Answered: &agent.Answered{Items: []json.RawMessage{item}}},
		{Kind: agent.StepWaiting, Waiting: &agent.Delivery{Response: item}},
		{Kind: agent.StepSettled, Settled: &agent.Settled{Response: item}},
	} {
		data, items, err := store.EncodeStep(step)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, item) || !bytes.Contains(items, item) {
			t.Errorf("%s: got data %s and items %q", step.Kind, data, items)
		}
	}
}

// Steps that are encoded together stand beside each other, however much memory they take;
// what follows has it when they are released.
func TestStepEncoder(t *testing.T) {
	step := func(text string) agent.Step {
		item, err := json.Marshal(strings.Repeat(text, 1000))
		if err != nil {
			t.Fatal(err)
		}
		return agent.Step{N: 1, Kind: agent.StepAsked, Asked: &agent.Asked{Canonical: text, NewItems: []json.RawMessage{item}}}
	}
	for range 3 {
		e := store.NewStepEncoder()
		var data, items [][]byte
		for i := range 100 {
			d, s, err := e.Encode(step(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			data, items = append(data, d), append(items, s)
		}
		for i := range data {
			wantData, wantItems, err := store.EncodeStep(step(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data[i], wantData) || !bytes.Equal(items[i], wantItems) {
				t.Fatalf("step %d is %.80s and %.80q, want %.80s and %.80q", i, data[i], items[i], wantData, wantItems)
			}
			_ = append(append(data[i], '!'), append(items[i], '!')...) // goes nowhere
		}
		e.Release()
	}
}

func TestEncodeStep_RefusesWhatItCouldNotReadAgain(t *testing.T) {
	for name, step := range map[string]agent.Step{
		"no kind":                       {},
		"an unknown kind":               {Kind: "danced"},
		"no member":                     {Kind: agent.StepAsked},
		"the member of another kind":    {Kind: agent.StepAsked, Answered: &agent.Answered{}},
		"two members":                   {Kind: agent.StepAsked, Asked: &agent.Asked{}, Answered: &agent.Answered{}},
		"a member where none belongs":   {Kind: agent.StepAccepted, Asked: &agent.Asked{}},
		"an empty item":                 {Kind: agent.StepAsked, Asked: &agent.Asked{NewItems: []json.RawMessage{nil}}},
		"an item with a control symbol": {Kind: agent.StepAsked, Asked: &agent.Asked{NewItems: []json.RawMessage{{'"', 0x1e, '"'}}}},
	} {
		if _, _, err := store.EncodeStep(step); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// Rows are read by code that follows the kind, so whatever is in them, a step that
// decodes is one that can be shown and stored again.
// It holds row S-15 of docs/security.md.
func FuzzDecodeStep(f *testing.F) {
	for _, step := range []agent.Step{
		{Kind: agent.StepAccepted},
		{Kind: agent.StepAsked, Asked: &agent.Asked{NewItems: []json.RawMessage{json.RawMessage(`{}`)}}},
		{Kind: agent.StepAnswered, Answered: &agent.Answered{Items: []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`2`)}, Deltas: []string{"a"}}},
		{Kind: agent.StepToolStarted, ToolStarted: &agent.ToolCall{}},
		{Kind: agent.StepToolFinished, ToolFinished: &agent.ToolFinished{ModeSwitch: &agent.ModeSwitch{}}},
		{Kind: agent.StepWaiting, Waiting: &agent.Delivery{Response: json.RawMessage(`{}`)}},
		{Kind: agent.StepContinued, Continued: &agent.Continued{}},
		{Kind: agent.StepResumed, Resumed: &agent.Resumed{}},
		{Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnFailed, Fault: &agent.Fault{}}},
	} {
		data, items, err := store.EncodeStep(step)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(step.Kind), data, items)
		f.Add(string(step.Kind), data, []byte("\x1e\x1e\n"))
		f.Add(string(step.Kind), []byte(`{"asked":null,"settled":{}}`), []byte("x\n"))
	}
	f.Fuzz(func(t *testing.T, kind string, data, items []byte) {
		step, err := store.DecodeStep(agent.Step{Kind: agent.StepKind(kind)}, data, items)
		if err != nil {
			return
		}
		step.Events(agent.TurnKey{})
		if _, _, err := store.EncodeStep(step); err != nil {
			t.Errorf("decoded, but not encoded again: %v", err)
		}
	})
}
