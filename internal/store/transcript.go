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
	items, asked []json.RawMessage
}

// Add takes the next step, by its kind and its stored items.
func (t *Transcript) Add(kind agent.StepKind, items []byte) error {
	raw, err := SplitItems(items)
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	switch kind {
	case agent.StepAsked:
		t.asked = raw
	case agent.StepAnswered:
		t.items = append(append(t.items, t.asked...), raw...)
		t.asked = nil
	}
	return nil
}

// Items returns the transcript so far.
func (t *Transcript) Items() []json.RawMessage { return t.items }
