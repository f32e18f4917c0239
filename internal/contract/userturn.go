package contract

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
)

// UserTurn opens a turn (AGN-034 §2.1). It says what the user wants and what the
// client sees; how the turn is run is the server's business.
type UserTurn struct {
	SessionID agent.SessionID `json:"sessionId"`
	// TurnID is chosen by the client and is the turn's idempotency key (decision 3).
	TurnID agent.TurnID `json:"turnId"`
	// Instruction is Markdown; empty when files or images carry the intent
	// (AGN-034 §4.1). A blank one reads as empty.
	Instruction     string           `json:"instruction,omitempty"`
	InputArtifacts  []agent.Artifact `json:"inputArtifacts,omitempty"`
	ClipboardImages []agent.Image    `json:"clipboardImages,omitempty"`
	// RAGScope is nil when nothing narrows the retrieval (AGN-034 §4.4).
	RAGScope *agent.RAGScope `json:"ragScope,omitempty"`
	// SolutionContextText replaces the session's stored one, also when it is empty;
	// nil leaves that as it is (AGN-034 §4.5).
	SolutionContextText *string `json:"solutionContextText,omitempty"`
	// WorkspaceID, Repository and Language are hints; nothing may depend on them
	// (AGN-034 §4.6).
	WorkspaceID string `json:"workspaceId,omitempty"`
	Repository  string `json:"repository,omitempty"`
	Language    string `json:"language,omitempty"`
	// Stream asks for a streamed answer; nil is false (AGN-034 §4.7).
	Stream *bool `json:"stream,omitempty"`
	// AgentContextID and ConversationContextID must be the session's, which is
	// created with them when it does not exist (decision 4); empty asks for nothing.
	AgentContextID        string `json:"agentContextId,omitempty"`
	ConversationContextID string `json:"conversationContextId,omitempty"`
}

// MarshalJSON writes the turn as a client sends it. It exists because an artifact must
// be sent with its contents even when they are empty, while its stored form leaves
// them out.
func (u UserTurn) MarshalJSON() ([]byte, error) {
	type plain UserTurn
	type artifact struct {
		RelativePath string `json:"relativePath"`
		FileName     string `json:"fileName"`
		Contents     string `json:"contents"`
		Origin       string `json:"origin"`
		MimeType     string `json:"mimeType,omitempty"`
		Language     string `json:"language,omitempty"`
		Encoding     string `json:"encoding,omitempty"`
	}
	sent := struct {
		plain
		InputArtifacts []artifact `json:"inputArtifacts,omitempty"`
	}{plain: plain(u)}
	for _, a := range u.InputArtifacts {
		sent.InputArtifacts = append(sent.InputArtifacts,
			artifact{a.RelativePath, a.FileName, a.Contents, a.Origin, a.MimeType, a.Language, a.Encoding})
	}
	return encode(sent)
}

func readUserTurn(o *object, lim Limits) *UserTurn {
	budget := &budget{perItem: lim.ArtifactBytes, perTurn: lim.TurnBytes}
	instruction := o.get("instruction")
	artifacts := o.get("inputArtifacts")
	images := o.get("clipboardImages")
	u := &UserTurn{
		SessionID:             agent.SessionID(o.need("sessionId", "AGN034-2.1-a").id("AGN034-2.1-a")),
		TurnID:                agent.TurnID(o.need("turnId", "AGN034-2.1-b").id("AGN034-2.1-b")),
		Instruction:           instruction.str("AGN034-4.1-a"),
		InputArtifacts:        readArtifacts(artifacts, lim.Artifacts, budget),
		ClipboardImages:       readImages(images, lim.Images, budget),
		RAGScope:              readRAGScope(o.get("ragScope")),
		SolutionContextText:   o.get("solutionContextText").strPointer("AGN034-4.5-a"),
		WorkspaceID:           o.get("workspaceId").str("AGN034-4.6-a"),
		Repository:            o.get("repository").str("AGN034-4.6-a"),
		Language:              o.get("language").str("AGN034-4.6-a"),
		Stream:                o.get("stream").flag("AGN034-4.7-a"),
		AgentContextID:        o.get("agentContextId").name("AGN034-2.1-d"),
		ConversationContextID: o.get("conversationContextId").name("AGN034-2.1-d"),
	}
	if strings.TrimSpace(u.Instruction) == "" {
		u.Instruction = ""
	}
	// One of the wrong type is a fault of its own, and not a missing input too.
	said := instruction.present && (instruction.kind != jsontext.KindString || u.Instruction != "")
	if !said && !artifacts.filled() && !images.filled() {
		o.faults.add(o.at, "AGN034-2.1-c", "A user turn needs an instruction that is not blank, inputArtifacts or clipboardImages; a tool continuation needs toolResults.")
	}
	o.forbidList("toolResults", "AGN034-2.1-e", "tool results go to POST /v1/agent/execute, with sessionId and turnId alone.")
	for _, f := range serverOwned {
		o.forbid(f.member, f.user, f.belongs)
	}
	o.done("a user turn")
	return u
}
