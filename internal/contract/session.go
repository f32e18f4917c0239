package contract

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// CreateSession is the body of POST /v1/sessions; every member is optional. It is the
// one place where a caller supplies an initial mode and a prompt of its own
// (decision 4).
type CreateSession struct {
	SessionID agent.SessionID `json:"sessionId,omitempty"`
	// Mode is the initial mode; empty means the default (AGN-011 §3.1). Whether it is
	// in the catalogue is seen where the catalogue is.
	Mode         agent.ModeKey `json:"mode,omitempty"`
	SystemPrompt string        `json:"systemPrompt,omitempty"`
	// Tools is the JSON array of the client's tools as it was written, nil when there
	// is none. Its entries are read by the tool package.
	Tools                 json.RawMessage   `json:"tools,omitempty"`
	AgentContextID        string            `json:"agentContextId,omitempty"`
	ConversationContextID string            `json:"conversationContextId,omitempty"`
	Concurrency           agent.Concurrency `json:"concurrency,omitempty"`
}

// DecodeCreateSession reads the body of POST /v1/sessions. No body at all asks for a
// session with all the defaults.
func DecodeCreateSession(body []byte, lim Limits) (CreateSession, error) {
	return decode(orEmpty(body, lim), lim, func(o *object) CreateSession {
		s := CreateSession{
			SessionID:             agent.SessionID(o.get("sessionId").id(ruleIDs)),
			Mode:                  agent.ModeKey(o.get("mode").str(ruleType)),
			SystemPrompt:          o.get("systemPrompt").str(ruleType),
			Tools:                 readTools(o.get("tools")),
			AgentContextID:        o.get("agentContextId").name(ruleIDs),
			ConversationContextID: o.get("conversationContextId").name(ruleIDs),
			Concurrency:           readConcurrency(o.get("concurrency")),
		}
		o.done("a new session")
		return s
	})
}

// BranchSession is the body of POST /v1/sessions/{sessionId}/branch; every member is
// optional.
type BranchSession struct {
	// SessionID names the new session, so that the same request again makes no second one.
	SessionID agent.SessionID `json:"sessionId,omitempty"`
	// Mode is the new session's; its parent's when empty.
	Mode agent.ModeKey `json:"mode,omitempty"`
	// AtTurnID is the last turn that the new session remembers; the last completed one when
	// empty.
	AtTurnID agent.TurnID `json:"atTurnId,omitempty"`
}

// DecodeBranchSession reads the body of POST /v1/sessions/{sessionId}/branch.
func DecodeBranchSession(body []byte, lim Limits) (BranchSession, error) {
	return decode(orEmpty(body, lim), lim, func(o *object) BranchSession {
		b := BranchSession{
			SessionID: agent.SessionID(o.get("sessionId").id(ruleIDs)),
			Mode:      agent.ModeKey(o.get("mode").str(ruleType)),
			AtTurnID:  agent.TurnID(o.get("atTurnId").id(ruleIDs)),
		}
		o.done("a branch")
		return b
	})
}

// DecodeVerdict reads the body of POST …/approvals/{approvalId}. Which decisions there are
// depends on the approval.
func DecodeVerdict(body []byte, lim Limits) (agent.Verdict, error) {
	return decode(body, lim, func(o *object) agent.Verdict {
		v := agent.Verdict{Decision: agent.Decision(readWords(o.need("decision", ruleRequired)))}
		if remember := o.get("remember").flag(ruleType); remember != nil {
			v.Remember = *remember
		}
		o.done("a decision")
		return v
	})
}

// SetMode is the body of PUT /v1/sessions/{sessionId}/mode.
type SetMode struct {
	Mode agent.ModeKey `json:"mode"`
	// Reason goes into the mode's history (AGN-011 §3.2).
	Reason string `json:"reason"`
}

// DecodeSetMode reads the body of PUT /v1/sessions/{sessionId}/mode.
func DecodeSetMode(body []byte, lim Limits) (SetMode, error) {
	return decode(body, lim, func(o *object) SetMode {
		m := SetMode{
			Mode:   agent.ModeKey(readWords(o.need("mode", ruleRequired))),
			Reason: readWords(o.need("reason", "AGN011-3.2-g")),
		}
		o.done("a change of mode")
		return m
	})
}

// SetTools is the body of PUT /v1/sessions/{sessionId}/tools. An empty array takes the
// client's tools away.
type SetTools struct {
	Tools json.RawMessage `json:"tools"`
}

// DecodeSetTools reads the body of PUT /v1/sessions/{sessionId}/tools.
func DecodeSetTools(body []byte, lim Limits) (SetTools, error) {
	return decode(body, lim, func(o *object) SetTools {
		t := SetTools{Tools: readTools(o.need("tools", ruleRequired))}
		o.done("a change of tools")
		return t
	})
}

// orEmpty reads no body at all as one without members.
func orEmpty(body []byte, lim Limits) []byte {
	if len(bytes.TrimSpace(body)) == 0 && int64(len(body)) <= lim.withDefaults().Body {
		return []byte("{}")
	}
	return body
}

// decode reads a body that has one form only.
func decode[T any](body []byte, lim Limits, read func(*object) T) (T, error) {
	var none T
	o, err := open(body, lim.withDefaults(), ruleType)
	if err != nil {
		return none, err
	}
	t := read(o)
	if err := o.faults.err(); err != nil {
		return none, err
	}
	return t, nil
}

// readTools copies the array, so that the session does not hold on to the whole body.
func readTools(v value) json.RawMessage {
	v.list(ruleType)
	if !v.present {
		return nil
	}
	return slices.Clone(v.raw)
}

// readWords reads a string that must say something.
func readWords(v value) string {
	s, ok := v.text(ruleType)
	if ok && strings.TrimSpace(s) == "" {
		v.fault(ruleRequired, "must not be blank.")
	}
	return s
}

func readConcurrency(v value) agent.Concurrency {
	s, ok := v.text(ruleType)
	switch {
	case !ok:
	case s == string(agent.ConcurrencyReject), s == string(agent.ConcurrencyQueue), s == string(agent.ConcurrencyInterrupt):
		return agent.Concurrency(s)
	default:
		v.fault(ruleConcurrency, "is %s; use reject, queue or interrupt, or leave it out for reject.", quote(s))
	}
	return agent.ConcurrencyReject
}
