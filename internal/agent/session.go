package agent

import (
	"encoding/json"
	"time"
)

// ModeGeneral is the mode in which a session starts unless its creator names
// another one (AGN-011 §3.1).
const ModeGeneral ModeKey = "general"

// Session is one conversation. It is the authoritative store of the current mode
// (AGN-011 §3.2) and of everything that holds from one turn to the next.
type Session struct {
	Org       OrgID
	ID        SessionID
	CreatedBy UserID
	// Mode is the current mode. It changes only through SetSessionMode.
	Mode ModeKey
	// Version counts the changes of the session; it moves with every mode change.
	Version int64
	// SystemPrompt is the caller's own scoped prompt (AGN-003 §4.2); may be empty.
	SystemPrompt string
	// ClientTools is the JSON array of tools that the client registered, in the
	// flat Responses form; nil when there are none (decision 5).
	ClientTools json.RawMessage
	// AgentContext and ConversationContext are pinned when the session is created.
	AgentContext        string
	ConversationContext string
	// SolutionContext is the latched text of AGN-034 §4.5.
	SolutionContext string
	Concurrency     Concurrency
	// LastResponseID is the provider's id of the last response of the last
	// completed turn. Non-empty means that the next request is a continuation
	// (AGN-003 §3, decision 20). It never leaves the server.
	LastResponseID string
	// Turns counts the turns accepted so far.
	Turns int64
	// Approved are the tools that the user approved for the rest of the session.
	Approved []string
	// Parent is where the session was branched off; zero for one that was not.
	Parent Lineage
	// Entry is how far the session has entered its mode.
	Entry     ModeEntry
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Lineage names the session that another one was branched off, and its last turn that
// the other one remembers. It stays when that session is erased.
type Lineage struct {
	Session SessionID
	Turn    TurnID
}

// ModeEntry is how far a session has entered its mode: whether the mode's bootstrap tools
// have run. It begins anew with each change of the mode.
type ModeEntry string

// The stages of an entry. Of a mode without bootstrap tools the first is the last.
const (
	EntryPending ModeEntry = "pending" // the next turn runs them
	EntryRunning ModeEntry = "running" // the mode cannot be changed meanwhile
	EntryReady   ModeEntry = "ready"
	EntryFailed  ModeEntry = "failed" // one of them failed; the next turn runs them again
)

// Concurrency is what happens to a user turn that arrives while another is active.
type Concurrency string

// The policies of a session.
const (
	// ConcurrencyReject answers 409 turn_in_progress and is the default.
	ConcurrencyReject Concurrency = "reject"
	// ConcurrencyQueue accepts the turn and runs it when those before it have ended.
	ConcurrencyQueue Concurrency = "queue"
	// ConcurrencyInterrupt cancels the active turn and runs the new one.
	ConcurrencyInterrupt Concurrency = "interrupt"
)

// ModeChange is one entry of a session's ModeHistory (AGN-011 §3.2): append-only,
// written in the same transaction as the session's mode.
type ModeChange struct {
	Org      OrgID
	Session  SessionID
	Sequence int64 // 1, 2, 3 … within the session
	Previous ModeKey
	Mode     ModeKey
	Reason   string
	At       time.Time
	User     UserID
	// Actor says who asked: ActorModel through agent_change_mode, or ActorUser.
	Actor Actor
	// Turn and Call name the tool call behind the change, empty for ActorUser.
	// Together with the session they make the write idempotent (decision 11).
	Turn TurnID
	Call CallID
	// Epoch is that of the run of Turn in which the model asks, 0 where there is one process
	// only; see Turn.Epoch. The history does not keep it.
	Epoch int64
	// Branch tells that the caller means to go on in a new session (AGN-011 §5.6).
	Branch bool
	// Approval is the user's consent in that turn; empty when none was asked for.
	Approval ApprovalID
}

// Actor says on whose word a mode changed.
type Actor string

// The two actors of a mode change.
const (
	ActorModel Actor = "model"
	ActorUser  Actor = "user"
)

// ModeSwitch is a mode change as answers and events show it.
type ModeSwitch struct {
	PreviousMode ModeKey `json:"previousMode"`
	Mode         ModeKey `json:"mode"`
	Branch       bool    `json:"branch"`
	Reason       string  `json:"reason"`
	// WelcomeMessage is the new mode's message to the user.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
}

// ContextName names a configured conversation context.
type ContextName struct {
	Agent, Conversation string
	// DefaultAgent tells that Agent is the one of sessions that choose none, Default
	// that Conversation is too.
	DefaultAgent, Default bool
}

// ConversationContext names the model and the boot prompt of a session
// (AGN-003 §2). It comes from configuration.
type ConversationContext struct {
	ID    string
	Model string
	// System is the boot prompt, the first item of the system message.
	System string
	// Temperature is left out of the request when nil.
	Temperature *float64
	// OmitTemperature keeps it out of the wire request only, for models that
	// refuse it (decision 30).
	OmitTemperature bool
	// EncryptedReasoning asks the provider, when it keeps nothing itself, for its
	// reasoning in a form that can be given back (decision 29). Models that do not
	// reason, and most other servers, refuse the question.
	EncryptedReasoning bool
	// OmitStore and OmitToolChoice keep these members out of the wire request, for
	// endpoints that refuse them or do not heed them.
	OmitStore      bool
	OmitToolChoice bool
	// AllowedTools tells that the endpoint keeps the model to some of the attached tools.
	AllowedTools bool
	// NoImages and NoFiles tell that the endpoint shows the model no images, or no
	// binary files, so that a turn which brings one is refused.
	NoImages bool
	NoFiles  bool
}
