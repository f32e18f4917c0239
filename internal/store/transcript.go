package store

import (
	"encoding/json"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// Transcript puts together what the model has seen and said, from the asked and
// answered steps of the completed turns, in order. A request counts only with its
// answer: one that was sent again after a crash stands in the journal twice and in
// the transcript once.
type Transcript struct {
	turns []TurnItems
	asked []json.RawMessage
}

// TurnItems are the items of a completed turn.
type TurnItems struct {
	Ordinal int64
	Items   []json.RawMessage
}

// Add takes the next step, by its turn, its kind and its stored items.
func (t *Transcript) Add(ordinal int64, kind agent.StepKind, items []byte) error {
	raw, err := SplitItems(items)
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	if n := len(t.turns); n == 0 || t.turns[n-1].Ordinal != ordinal {
		t.turns, t.asked = append(t.turns, TurnItems{Ordinal: ordinal}), nil
	}
	turn := &t.turns[len(t.turns)-1]
	switch kind {
	case agent.StepAsked:
		t.asked = raw
	case agent.StepAnswered:
		turn.Items = append(append(turn.Items, t.asked...), raw...)
		t.asked = nil
	}
	return nil
}

// Turns returns the transcript so far.
func (t *Transcript) Turns() []TurnItems { return t.turns }

// Items returns the items of the turns, one after the other.
func Items(turns []TurnItems) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range turns {
		out = append(out, t.Items...)
	}
	return out
}
