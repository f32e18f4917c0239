package reasoner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/prompt"
)

// remind asks again with the whole transcript, since the provider does not know the
// response that the request continued (decision 29). The model has done nothing for
// the first request, so this is no second generation. It is a request of its own in
// the journal: what was sent, and why there are two, can be read back.
func (r *run) remind(ctx context.Context, sent *agent.Asked, forgotten string, refused error) error {
	history, err := r.history(ctx, sent)
	if err != nil {
		return err
	}
	again := *sent
	again.Call = r.modelCalls + 1
	again.WireHead = llm.Unchained(sent.WireHead, forgotten)
	again.Replayed = len(history)
	again.WireSHA256 = prompt.SHA256(llm.Assemble(again.WireHead, slices.Concat(history, again.NewItems), again.WireTail))
	r.log.WarnContext(ctx, "the provider does not know the previous response; the transcript is sent instead",
		"turn", r.turn.Key.String(), "items", len(history), "error", refused)
	return r.record(ctx, agent.Step{Kind: agent.StepAsked, Asked: &again})
}

// history returns what came before the new items of the request that is being asked.
func (r *run) history(ctx context.Context, sent *agent.Asked) ([]json.RawMessage, error) {
	if r.turn.Chain && r.turn.Transcript == nil && r.turn.Recall != nil {
		var err error
		if r.turn.Transcript, err = r.turn.Recall(ctx); err != nil {
			return nil, fmt.Errorf("recall the transcript for turn %s: %w", r.turn.Key, err)
		}
	}
	return llm.Replay(slices.Concat(r.turn.Transcript, r.items[:len(r.items)-len(sent.NewItems)]), sent.NewItems), nil
}
