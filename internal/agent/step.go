package agent

import (
	"encoding/json"
	"time"
)

// StepKind names a transition in a turn's journal.
type StepKind string

// The kinds of journal steps, in the order in which a turn meets them.
const (
	StepQueued       StepKind = "queued" // taken while another turn of the session was active
	StepAccepted     StepKind = "accepted"
	StepEntering     StepKind = "entering"      // the bootstrap tools of the mode, before they run
	StepEntered      StepKind = "entered"       // they have run, or one of them failed
	StepAsked        StepKind = "asked"         // a model request, before it is sent
	StepAnswered     StepKind = "answered"      // a model response, items raw
	StepToolStarted  StepKind = "tool_started"  // before a server tool is dispatched
	StepToolFinished StepKind = "tool_finished" // its result
	StepAskedUser    StepKind = "asked_user"    // a call waits for the user's decision
	StepDecided      StepKind = "decided"       // the decision
	StepWaiting      StepKind = "waiting"       // handed to the client, or to its user
	StepContinued    StepKind = "continued"     // the client's results
	StepResumed      StepKind = "resumed"       // after a crash
	StepSettled      StepKind = "settled"       // the end
)

// Step is one row of a turn's journal. The journal is the turn's only truth: the
// events that a reader sees are a projection of it (see Events), and the reasoner
// rebuilds its state from it. Exactly the member that belongs to Kind is set.
type Step struct {
	// N is 1, 2, 3 … without gaps within the turn.
	N int `json:"-"`
	// Kind says which member below is set.
	Kind StepKind `json:"-"`
	// FirstEvent is the sequence of the step's first event.
	FirstEvent int64     `json:"-"`
	At         time.Time `json:"-"`

	Queued       *Queued       `json:"queued,omitempty"`
	Accepted     *Accepted     `json:"accepted,omitempty"`
	Entering     *Entering     `json:"entering,omitempty"`
	Entered      *Entered      `json:"entered,omitempty"`
	Asked        *Asked        `json:"asked,omitempty"`
	Answered     *Answered     `json:"answered,omitempty"`
	ToolStarted  *ToolCall     `json:"toolStarted,omitempty"`
	ToolFinished *ToolFinished `json:"toolFinished,omitempty"`
	AskedUser    *Approval     `json:"askedUser,omitempty"`
	Decided      *Decided      `json:"decided,omitempty"`
	Waiting      *Delivery     `json:"waiting,omitempty"`
	Continued    *Continued    `json:"continued,omitempty"`
	Resumed      *Resumed      `json:"resumed,omitempty"`
	Settled      *Settled      `json:"settled,omitempty"`
}

// Queued is a turn that waits for its session.
type Queued struct {
	// Execution is all that the turn was asked for. It is built when it starts, from the
	// session as it is then.
	Execution json.RawMessage `json:"execution"`
	// Trace is that of the request which sent the turn, as in Accepted.
	Trace string `json:"trace,omitempty"`
}

// Accepted is what the opening of a turn found worth telling.
type Accepted struct {
	// Warnings go into the answer's userWarnings.
	Warnings []string `json:"warnings,omitempty"`
	// Sources name the passages that retrieval put before the model, in the [CONTEXT] block
	// of the first request. The block itself stands in that request.
	Sources []Source `json:"sources,omitempty"`
	// Instructions hold for this turn only and go with each of its model calls; set
	// when the session is past its first answer (decision 27).
	Instructions string `json:"instructions,omitempty"`
	// Catalog is the hash of the mode catalogue that the turn began with (D78).
	Catalog string `json:"catalog,omitempty"`
	// ServerTools are the names of the turn's tools that run at the server; the others
	// of its frozen tools are the client's.
	ServerTools []string `json:"serverTools,omitempty"`
	// Welcome is the mode's message to the user, of a turn that begins the session.
	Welcome string `json:"welcome,omitempty"`
	// Trace is the trace that the turn is part of, in W3C form, so that it goes on in it after
	// a wait or a crash; empty when nobody traces.
	Trace string `json:"trace,omitempty"`
	// Door is what the edge that took the request must know again to answer in its
	// own form. Nothing else reads it.
	Door json.RawMessage `json:"door,omitempty"`
}

// Entering is a turn that is the first in its mode.
type Entering struct {
	// Execution is all that the turn was asked for, as in Queued: the request is built when
	// the tools have run. It is absent when the turn was queued.
	Execution json.RawMessage `json:"execution,omitempty"`
	// Context is what was retrieved for it.
	Context string `json:"context,omitempty"`
	// Calls are the bootstrap tools in their order, with ids of their own.
	Calls []ToolCall `json:"calls"`
}

// Entered is how the entry into a mode ended.
type Entered struct {
	Mode  ModeKey `json:"mode"`
	Ready bool    `json:"ready"`
	// Problem says which tool failed and why, when not Ready.
	Problem string `json:"problem,omitempty"`
}

// Asked is a model request as it is about to be sent.
type Asked struct {
	// Call is the number of the model call within the turn: 1, 2, 3 …
	Call int `json:"call"`
	// Mode is request.Mode at this call (AGN-011 §5.3).
	Mode            ModeKey `json:"mode"`
	Canonical       string  `json:"canonical"`
	CanonicalSHA256 string  `json:"canonicalSha256"`
	// WireHead, then the items of Replayed earlier steps and NewItems, joined by
	// commas, then WireTail, are the bytes that were posted. Kept apart so that a
	// replayed transcript is not stored again with every call.
	WireHead string `json:"wireHead"`
	Replayed int    `json:"replayed,omitempty"`
	// Room bounds the replayed items in bytes, where the whole transcript did not fit
	// the model; 0 is no bound. LeftOut counts the turns that went for it.
	Room       int               `json:"room,omitempty"`
	LeftOut    int               `json:"leftOut,omitempty"`
	NewItems   []json.RawMessage `json:"newItems"`
	WireTail   string            `json:"wireTail"`
	WireSHA256 string            `json:"wireSha256"`
}

// Brief returns what a turn that goes on still asks for, once the request is journalled
// and sent: all but the texts that can be long.
func (a Asked) Brief() *Asked {
	a.Canonical, a.WireHead, a.WireTail = "", "", ""
	return &a
}

// Answered is a model response as it came in.
type Answered struct {
	Call       int    `json:"call"`
	ResponseID string `json:"responseId"`
	// Items are the output items, byte for byte.
	Items []json.RawMessage `json:"items"`
	Usage Usage             `json:"usage"`
	// Deltas are the pieces in which the text was shown, one event each.
	Deltas []string `json:"deltas,omitempty"`
}

// ToolFinished is a server tool's result and, when it changed the mode, the change.
type ToolFinished struct {
	Result     ToolResult  `json:"result"`
	ModeSwitch *ModeSwitch `json:"modeSwitch,omitempty"`
	// Refused tells that no tool ran: there is none of this name in the turn, or the
	// arguments do not fit it.
	Refused bool `json:"refused,omitempty"`
}

// Delivery is an answer handed to the client.
type Delivery struct {
	Response json.RawMessage `json:"response"`
	// Calls are the client tool calls, in the model's order. There are none while the turn
	// waits for its user: the approvals that have no decision are those of the steps before.
	Calls []ToolCall `json:"calls,omitempty"`
}

// Continued holds the client's results, in the order of the calls.
type Continued struct {
	Results []ToolResult `json:"results"`
	SHA256  string       `json:"sha256"`
	// Warnings are worth telling in the answer to this submission.
	Warnings []string `json:"warnings,omitempty"`
	// Door is as in Accepted.
	Door json.RawMessage `json:"door,omitempty"`
}

// Resumed tells that another process took the turn up again.
type Resumed struct {
	// ReplaceFrom is the sequence from which on shown text is void.
	ReplaceFrom int64 `json:"replaceFrom"`
}

// Settled is how a turn ended.
type Settled struct {
	State    TurnState       `json:"state"`
	Response json.RawMessage `json:"response,omitempty"`
	Fault    *Fault          `json:"fault,omitempty"`
	// Partial is text that was shown before a model call broke off and that never
	// became an answer; it keeps its place in the stream.
	Partial []string `json:"partial,omitempty"`
	// Abandoned are the calls that had no result when the turn ended, closed with
	// an explicit one so that the transcript stays valid.
	Abandoned []ToolResult `json:"abandoned,omitempty"`
}

// HandsOver reports whether the step hands calls to the client, which owes their results.
func (s Step) HandsOver() bool { return s.Kind == StepWaiting && len(s.Waiting.Calls) > 0 }

// AsksUser reports whether the step leaves the turn waiting for decisions of its user.
func (s Step) AsksUser() bool { return s.Kind == StepWaiting && len(s.Waiting.Calls) == 0 }

// EventCount returns how many Events the step has.
func (s Step) EventCount() int {
	switch s.Kind {
	case StepAnswered:
		return len(s.Answered.Deltas)
	case StepToolFinished:
		if s.ToolFinished.ModeSwitch != nil {
			return 2
		}
		return 1
	case StepSettled:
		return len(s.Settled.Partial) + 1
	case StepContinued, StepEntering:
		return 0
	default:
		return 1
	}
}

// Events returns what the step shows to readers, numbered from FirstEvent. A step
// may show nothing.
func (s Step) Events(k TurnKey) []Event {
	return s.AppendEvents(make([]Event, 0, s.EventCount()), k)
}

// AppendEvents appends the step's events, as Events returns them.
func (s Step) AppendEvents(out []Event, k TurnKey) []Event {
	next := s.FirstEvent
	add := func(e Event) {
		e.Sequence = next
		next++
		e.SessionID, e.TurnID = k.Session, k.Turn
		out = append(out, e)
	}
	switch s.Kind {
	case StepQueued:
		add(Event{Type: EventTurnQueued})
	case StepAccepted:
		started := Event{Type: EventTurnStarted}
		if s.Accepted != nil {
			started.Welcome = s.Accepted.Welcome
		}
		add(started)
	case StepEntered:
		add(Event{Type: EventModeEntered, Entry: s.Entered})
	case StepAsked:
		add(Event{Type: EventModelRequest, Call: s.Asked.Call,
			CanonicalSHA256: s.Asked.CanonicalSHA256, WireSHA256: s.Asked.WireSHA256})
	case StepAnswered:
		for _, d := range s.Answered.Deltas {
			add(Event{Type: EventTextDelta, Text: d})
		}
	case StepToolStarted:
		add(Event{Type: EventToolStarted, ToolCallID: s.ToolStarted.ID, Name: s.ToolStarted.Name})
	case StepToolFinished:
		r := s.ToolFinished.Result
		ms := r.Ms
		add(Event{Type: EventToolFinished, ToolCallID: r.CallID, Name: r.Name, Outcome: r.Code, Ms: &ms})
		if sw := s.ToolFinished.ModeSwitch; sw != nil {
			add(Event{Type: EventModeChanged, ModeSwitch: sw, Welcome: sw.WelcomeMessage})
		}
	case StepAskedUser:
		add(Event{Type: EventApprovalRequired, Approval: s.AskedUser})
	case StepDecided:
		add(Event{Type: EventApprovalDecided, ToolCallID: s.Decided.Call, Decided: s.Decided})
	case StepWaiting:
		add(Event{Type: EventTurnWaiting, Response: s.Waiting.Response, AsksUser: s.AsksUser()})
	case StepResumed:
		add(Event{Type: EventTurnResumed, ReplaceFrom: s.Resumed.ReplaceFrom})
	case StepSettled:
		for _, d := range s.Settled.Partial {
			add(Event{Type: EventTextDelta, Text: d})
		}
		switch s.Settled.State {
		case TurnCompleted:
			add(Event{Type: EventTurnCompleted, Response: s.Settled.Response})
		case TurnFailed:
			add(Event{Type: EventTurnFailed, Fault: s.Settled.Fault})
		case TurnCancelled:
			add(Event{Type: EventTurnCancelled})
		}
	}
	return out
}
