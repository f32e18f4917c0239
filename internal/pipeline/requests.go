package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/store"
)

// Preview is the request that a user turn would send, without anything stored and
// without the model being called.
type Preview struct {
	Canonical, CanonicalSHA256 string
	Wire, WireSHA256           string
	Mode                       agent.ModeKey
	// Tools is the frozen JSON array.
	Tools json.RawMessage
}

// Preview builds the first request of a turn exactly as Submit would send it now.
func (p *Pipeline) Preview(ctx context.Context, by agent.Caller, u contract.UserTurn) (Preview, error) {
	at, err := p.standing(ctx, by, agent.TurnKey{Org: by.Org, Session: u.SessionID, Turn: u.TurnID})
	if err != nil {
		return Preview{}, err
	}
	return p.preview(ctx, by, Execution{UserTurn: u}, at.Session)
}

// PreviewMode builds the first request of a session that would begin in a mode.
func (p *Pipeline) PreviewMode(ctx context.Context, by agent.Caller, m agent.ModeKey, instruction string) (Preview, error) {
	u := contract.UserTurn{SessionID: "preview", TurnID: "preview", Instruction: instruction}
	return p.preview(ctx, by, Execution{UserTurn: u, Mode: m}, nil)
}

func (p *Pipeline) preview(ctx context.Context, by agent.Caller, x Execution, known *agent.Session) (Preview, error) {
	o, err := p.open(ctx, by, x, known)
	if err != nil {
		return Preview{}, err
	}
	if err := p.ready(ctx, x, &o); err != nil {
		return Preview{}, err
	}
	return Preview{
		Canonical: o.first.Canonical, CanonicalSHA256: o.first.CanonicalSHA256,
		Wire: string(o.first.Wire.Bytes()), WireSHA256: o.first.WireSHA256,
		Mode: o.turn.Request.Mode, Tools: o.turn.Tools.JSON,
	}, nil
}

// ModelCall is one model call of a turn as it was sent.
type ModelCall struct {
	N                          int
	Canonical, CanonicalSHA256 string
	Wire, WireSHA256           string
	At                         time.Time
	// Usage is nil until the call was answered.
	Usage *agent.Usage
}

// Requests returns every model call of a turn, byte for byte. The bytes are checked
// against the hash that was journalled when they were sent.
func (p *Pipeline) Requests(ctx context.Context, key agent.TurnKey) ([]ModelCall, error) {
	t, err := p.Store.Turn(ctx, key)
	if err != nil {
		return nil, err
	}
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	var calls []ModelCall
	var earlier []json.RawMessage // the replayed transcript: earlier turns, then this one
	var asked []json.RawMessage   // the new items of the request that waits for its answer
	loaded := false
	for _, s := range steps {
		switch s.Kind {
		case agent.StepAsked:
			a := s.Asked
			if a.Replayed > 0 && !loaded {
				transcript, err := p.Store.Transcript(ctx, key.Org, key.Session, 0, t.Ordinal)
				if err != nil {
					return nil, fmt.Errorf("read transcript of session %s: %w", key.Session, err)
				}
				earlier, loaded = append(store.Items(transcript), earlier...), true
			}
			wire := llm.Wire{Head: a.WireHead, New: a.NewItems, Tail: a.WireTail}
			if a.Replayed > 0 {
				wire.History, _ = llm.Shorten(llm.Replay(earlier, 0, a.NewItems), a.NewItems, a.Room)
			}
			if wire.SHA256() != a.WireSHA256 {
				return nil, fmt.Errorf("model call %d of turn %s: the stored request does not have the hash %s that was journalled", a.Call, key, a.WireSHA256)
			}
			calls = append(calls, ModelCall{N: a.Call, Canonical: a.Canonical, CanonicalSHA256: a.CanonicalSHA256,
				Wire: string(wire.Bytes()), WireSHA256: a.WireSHA256, At: s.At})
			asked = a.NewItems // one that the provider refused is not part of what follows
		case agent.StepAnswered:
			if len(calls) == 0 {
				return nil, fmt.Errorf("step %d of turn %s answers a request that is not in the journal", s.N, key)
			}
			usage := s.Answered.Usage
			calls[len(calls)-1].Usage = &usage
			earlier = slices.Concat(earlier, asked, s.Answered.Items)
			asked = nil
		}
	}
	return calls, nil
}
