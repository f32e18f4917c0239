package store

import (
	"encoding/json"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// NewTurn is a user turn as it becomes durable: with everything in it, in one
// transaction, or not at all.
type NewTurn struct {
	// Session is created in the same transaction when it does not exist; nil means
	// that it must.
	Session *agent.Session
	// SessionVersion is the version of the session that Turn.Mode and Turn.Tools
	// were computed from, 0 when there was none. A session at another version
	// refuses the turn with ErrVersion: between reading it and opening the turn
	// its mode or its tools were changed, and a turn must not run with the old
	// ones (AGN-011 §3.3).
	SessionVersion int64
	// Turn is the turn; its Ordinal is assigned, its State defaults to accepted. It
	// may have come further before it is written, to its end even; or not begun, when
	// it is Queued: then another turn may be active.
	Turn agent.Turn
	// SolutionContext replaces the session's latched text; nil leaves it as it is
	// (AGN-034 §4.5).
	SolutionContext *string
	// Blobs are the contents that Turn.Request names by hash.
	Blobs []agent.Blob
	// Steps begin the journal: 1, 2, 3 …
	Steps []agent.Step
	// LastResponseID, when set, becomes the session's, as in Append.
	LastResponseID *string
	// ModeEntry, when set, becomes the session's, as in Append.
	ModeEntry agent.ModeEntry
	// By is on whose word the session is created, for the audit log: its commit may not be
	// the request's.
	By agent.Origin
	// Lease is of whoever opens the turn and runs it, at epoch 1; see Leasing. A turn that
	// is Queued, waits or is over by then has none, and begins at epoch 0.
	Lease Lease
}

// Standing is what a new turn meets, all of it at one moment.
type Standing struct {
	// Session is nil when there is none.
	Session *agent.Session
	// Known tells that the turn is there already.
	Known bool
	// Active is the turn that holds the session, "" when it is free.
	Active agent.TurnID
	// Queued is how many turns wait for the session.
	Queued int
}

// Append is one transition of a turn: the steps, the new state and what goes with
// it are written in one transaction, or not at all.
type Append struct {
	Key   agent.TurnKey
	Steps []agent.Step
	// Epoch is that of the claim under which the writer runs the turn, or the one at
	// which it has read a turn that nobody runs: 0 where there are no leases. A turn at
	// another epoch refuses the transition with ErrFenced. See Leasing.
	Epoch int64
	// Lease, when it has an owner, claims the turn with this transition: one that leaves
	// the queue, or goes on after it has waited. The turn's epoch is then Epoch + 1. A
	// lease of another owner that still holds refuses it with ErrFenced.
	Lease Lease
	// Owner names the writer where it runs the turn. One that another owner runs refuses
	// the transition with ErrFenced, also at the same epoch: the session may have been
	// erased and begun anew, with a turn of the same name.
	Owner string
	// Fence moves the epoch on with a transition that brings a turn to rest. It is for ends
	// that do not come from the owner, such as a cancel: what the owner writes from then on
	// is refused with ErrFenced.
	Fence bool
	// State is the new state; "" leaves it.
	State agent.TurnState
	// From lists the states in which this transition is allowed; a turn in another
	// one refuses it with ErrState. Empty means every state but the terminal ones:
	// the journal of a turn that is over is closed.
	From []agent.TurnState
	// The members below replace what the turn holds when they are set.
	Response           json.RawMessage
	Fault              *agent.Fault
	ContinuationSHA256 string
	Deadline           time.Time
	// Start tells that a queued turn begins, with the mode and the tools that it has
	// found. They were computed from the session at SessionVersion, and another version
	// refuses the transition with ErrVersion.
	Start *Start
	// LastResponseID, when set, becomes the session's: the settling of a completed
	// turn and the next turn's starting point cannot fall apart.
	LastResponseID *string
	// ModeEntry, when set, becomes the session's: how far it has entered its mode.
	ModeEntry agent.ModeEntry
	// Approved, when set, become the session's: the tools that its user approved for the
	// rest of it.
	Approved []string
}

// MovesSession reports whether the transition changes the session as well.
func (a Append) MovesSession() bool {
	return a.LastResponseID != nil || a.ModeEntry != "" || len(a.Approved) > 0
}

// Start is what a queued turn begins with.
type Start struct {
	SessionVersion int64
	Mode           agent.ModeKey
	Tools          json.RawMessage
}

// Active are the states in which a turn holds its session.
func Active() []agent.TurnState {
	return []agent.TurnState{agent.TurnAccepted, agent.TurnRunning, agent.TurnWaiting}
}
