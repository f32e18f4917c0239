package reasoner

import (
	"encoding/json"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prompt"
)

// First returns the first model request of a turn, exactly as Run would send it.
// Preview and acceptance both use it, so they cannot differ.
func (r *Reasoner) First(t *Turn) Request {
	return r.request(t, newState(t.Request.Mode))
}

// request builds the next model request. The first call of a turn carries the
// instruction and what belongs to it; follow-ups carry an empty instruction and the
// results, so that the model is not told to start over (decision 22).
func (r *Reasoner) request(t *Turn, s *state) Request {
	l1 := t.Request
	l1.Mode = s.mode
	lane := llm.Lane{
		Instructions:    instructions(mode.Layer(t.Catalog, s.mode, t.SolutionContext), t.Instructions),
		Tools:           t.Tools.Schemas,
		Chain:           t.Chain,
		OmitTemperature: t.Context.OmitTemperature, EncryptedReasoning: t.Context.EncryptedReasoning,
		OmitStore: t.Context.OmitStore, OmitToolChoice: t.Context.OmitToolChoice, OmitImages: t.Context.NoImages,
		FirstCall: s.answers == 0, Room: s.room,
	}
	if t.Attached != nil {
		lane.Tools, lane.AllowedTools = t.Attached, t.Tools.Names()
	}
	if s.answers > 0 {
		l1.Instruction, l1.Artifacts, l1.Images = "", nil, nil
		l1.ResponseContinuationID = s.responseID
		lane.ToolOutputs = s.lastResults()
		l1.ToolResultsJSON = resultsJSON(lane.ToolOutputs)
	} else {
		lane.Artifacts, lane.Images = l1.Artifacts, l1.Images
	}
	if !t.Chain {
		lane.History, lane.WholeHistory = t.Transcript.Items, t.Transcript.Whole
		if len(s.items) > 0 {
			lane.History = slices.Concat(lane.History, s.items)
		}
	}
	in := prompt.Input{Context: t.Context, Request: l1, Stream: t.Stream, ToolUsageMetadataBlock: t.Tools.Usage()}
	if s.answers == 0 {
		in.RAGContextBlock = t.RAGContextBlock
		in.ModeEntryBlock = prompt.ModeEntryBlock(s.entered())
	}
	canonical := prompt.Build(in)
	wire := llm.BuildWire(canonical, lane)
	out := Request{Canonical: canonical.JSON(), Wire: wire, WireSHA256: wire.SHA256(), Room: s.room}
	h := prompt.NewHash()
	h.String(out.Canonical)
	out.CanonicalSHA256 = h.Sum()
	t.made = made{wire: wire, sha256: out.WireSHA256}
	return out
}

// instructions puts the turn's own instructions after the mode layer (decision 27).
func instructions(layer, own string) string {
	if own == "" {
		return layer
	}
	return layer + "\n\n" + own
}

// Asked returns the journal step for the request as model call n in a mode.
func (q Request) Asked(n int, m agent.ModeKey) agent.Step {
	return agent.Step{Kind: agent.StepAsked, Asked: &agent.Asked{
		Call: n, Mode: m,
		Canonical: q.Canonical, CanonicalSHA256: q.CanonicalSHA256,
		WireHead: q.Wire.Head, Replayed: len(q.Wire.History), NewItems: q.Wire.New, WireTail: q.Wire.Tail,
		Room: q.Room, LeftOut: q.Wire.LeftOut,
		WireSHA256: q.WireSHA256,
	}}
}

// resultsJSON writes the results for the canonical request, where the text of each stands
// for its images.
func resultsJSON(results []agent.ToolResult) string {
	results = slices.Clone(results)
	for i := range results {
		results[i].Images = nil
	}
	b, err := json.Marshal(results)
	if err != nil { // cannot happen: strings and numbers only
		return ""
	}
	return string(b)
}
