package reasoner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// again journals the request that is worth sending after the provider refused the one
// before, and reports whether there is one. The model has done nothing for the first
// request, so this is no second generation. It is a request of its own in the journal:
// what was sent, and why there are two, can be read back.
//
// A provider that does not know the previous response is sent the transcript (decision
// 29). One whose model the transcript does not fit is sent less of it.
func (r *run) again(ctx context.Context, sent *agent.Asked, refused error) (bool, error) {
	previous := llm.PreviousResponseID(sent.WireHead, sent.WireTail)
	forgotten, overflows := llm.Forgotten(refused, previous), llm.Overflows(refused)
	if !forgotten && !overflows {
		return false, nil
	}
	next := *sent
	next.Call = r.modelCalls + 1
	next.WireHead, next.WireTail = llm.Unchained(sent.WireHead, sent.WireTail, previous)
	whole, err := r.transcript(ctx, sent)
	if err != nil {
		return false, err
	}
	if overflows {
		next.Room = sent.Room
		if next.Room == 0 {
			next.Room = llm.Size(whole)
		}
		for next.LeftOut == sent.LeftOut {
			if next.Room /= 2; next.Room == 0 {
				return false, nil // there is nothing left that could go
			}
			_, next.LeftOut = llm.Shorten(whole, sent.NewItems, next.Room)
		}
	}
	history, _ := llm.Shorten(whole, sent.NewItems, next.Room)
	next.Replayed = len(history)
	next.WireSHA256 = llm.Wire{Head: next.WireHead, History: history, New: next.NewItems, Tail: next.WireTail}.SHA256()
	r.log.WarnContext(ctx, "the provider refused a model call; the transcript is sent instead",
		"turn", r.turn.Key.String(), "items", len(history), "turnsLeftOut", next.LeftOut, "error", refused)
	r.soon(agent.Step{Kind: agent.StepAsked, Asked: &next})
	return true, nil
}

// history returns what comes before the new items of the request that is being asked.
func (r *run) history(ctx context.Context, sent *agent.Asked) ([]json.RawMessage, error) {
	whole, err := r.transcript(ctx, sent)
	if err != nil {
		return nil, err
	}
	history, _ := llm.Shorten(whole, sent.NewItems, sent.Room)
	return history, nil
}

// transcript returns everything that came before the new items of the request that is
// being asked, as it can be sent again.
func (r *run) transcript(ctx context.Context, sent *agent.Asked) ([]json.RawMessage, error) {
	if r.turn.Chain && r.turn.Transcript.Items == nil && r.turn.Recall != nil {
		var err error
		if r.turn.Transcript, err = r.turn.Recall(ctx); err != nil {
			return nil, fmt.Errorf("recall the transcript for turn %s: %w", r.turn.Key, err)
		}
	}
	earlier := r.turn.Transcript
	return llm.Replay(slices.Concat(earlier.Items, r.items[:len(r.items)-len(sent.NewItems)]), earlier.Whole, sent.NewItems), nil
}
