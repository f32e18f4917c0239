package prompt

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/intern"
)

// Request is the part of the server's own execution request that the builder reads
// (AGN-003 §2). An empty string stands for null.
type Request struct {
	Mode        agent.ModeKey
	Instruction string
	// ResponseContinuationID makes the request a continuation when it is not empty
	// (AGN-003 §3).
	ResponseContinuationID string
	// ToolsJSON is a JSON array of tool schemas.
	ToolsJSON json.RawMessage
	// ToolChoiceName forces a call of that tool.
	ToolChoiceName string
	// ToolResultsJSON is the JSON array of the agent.ToolResult of the previous
	// model call, in the model's order.
	ToolResultsJSON string
	// SystemPrompt is the caller's own boot text (AGN-003 §4.2).
	SystemPrompt string
	Artifacts    []agent.Artifact
	Images       []agent.Image
}

// Input is all that a canonical request is made of (AGN-003 §2).
type Input struct {
	Context agent.ConversationContext
	Request Request
	// RAGContextBlock is the formatted [CONTEXT] block; it is taken as it is
	// (AGN-003 §5.2).
	RAGContextBlock string
	// ModeEntryBlock is what the mode's bootstrap tools gave, of the first request in it; see
	// ModeEntryBlock.
	ModeEntryBlock string
	// ToolUsageMetadataBlock is the delimited usage guidance of the attached server
	// tools (AGN-003 §4.3).
	ToolUsageMetadataBlock string
	Stream                 *bool
}

// instructionHeader stands between the mode and the raw instruction (AGN-003 §5.1).
const instructionHeader = "\n\n[INSTRUCTION]\n"

// Build composes the canonical request (AGN-003). Bytes of a text that are not
// UTF-8 become U+FFFD, since JSON could not carry them.
func Build(in Input) Canonical {
	r := in.Request
	c := Canonical{
		Model:       valid(in.Context.Model),
		Temperature: finite(in.Context.Temperature),
		Stream:      in.Stream,
	}
	if initial := r.ResponseContinuationID == ""; initial {
		c.Input = append(c.Input, systemMessage(in))
		c.Tools = tools(r.ToolsJSON)
	} else {
		c.PreviousResponseID = valid(r.ResponseContinuationID)
	}
	c.Input = append(c.Input, userMessage(in))
	if r.ToolChoiceName != "" {
		c.ToolChoice = &ToolChoice{Type: typeTool, Name: valid(r.ToolChoiceName)}
	}
	return c
}

// systemMessage is the one system message of an initial request (AGN-003 §4). The
// boot prompt is there even when it is empty.
func systemMessage(in Input) Message {
	m := Message{Role: RoleSystem}
	m.add(in.Context.System)
	if strings.TrimSpace(in.Request.SystemPrompt) != "" {
		m.add(in.Request.SystemPrompt)
	}
	m.addBlock(in.ToolUsageMetadataBlock)
	return m
}

// userMessage is the one user message of every request (AGN-003 §5); what AGN-003
// has no slot for follows last (decision 21).
func userMessage(in Input) Message {
	r := in.Request
	m := Message{Role: RoleUser}
	m.add("[MODE: " + string(r.Mode) + "]" + instructionHeader + r.Instruction)
	m.addBlock(in.RAGContextBlock)
	// An initial request follows no tool call: the block belongs to continuations
	// (AGN-003 §5.3).
	if r.ResponseContinuationID != "" {
		m.addBlock(BuildFromToolResultsJSON(r.ToolResultsJSON))
	}
	m.addBlock(in.ModeEntryBlock)
	m.addBlock(ArtifactsBlock(r.Artifacts))
	m.addBlock(ImagesBlock(r.Images))
	return m
}

func (m *Message) add(text string) {
	m.Content = append(m.Content, Content{Type: typeText, Text: valid(text)})
}

func (m *Message) addBlock(text string) {
	if text != "" {
		m.add(text)
	}
}

// toolArrays are arrays of tool schemas: the turns of a mode have the same.
var toolArrays intern.Table[[]json.RawMessage]

// tools parses the array of tool schemas and keeps its objects; what does not parse
// is left out without a word, since its caller has logged it (AGN-003 §6.1).
func tools(raw json.RawMessage) []json.RawMessage {
	return toolArrays.OfBytes(raw, func(raw string) []json.RawMessage {
		var elements []json.RawMessage
		if err := json.Unmarshal([]byte(valid(raw)), &elements); err != nil {
			return nil
		}
		var out []json.RawMessage
		for _, e := range elements {
			if len(e) == 0 || e[0] != '{' {
				continue
			}
			var b bytes.Buffer
			if err := json.Compact(&b, e); err != nil {
				return nil
			}
			out = append(out, b.Bytes())
		}
		return slices.Clip(out) // nobody's to append to
	})
}

// finite drops a temperature that JSON cannot write.
func finite(t *float64) *float64 {
	if t == nil || math.IsNaN(*t) || math.IsInf(*t, 0) {
		return nil
	}
	return t
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
