package store

import (
	"errors"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// The errors that a writer is expected to meet and to handle. Test for them with
// errors.Is.
var (
	// ErrExists says that the session or the turn is there already. Nothing was
	// written.
	ErrExists = errors.New("it exists already")
	// ErrState says that the turn is no longer where the writer thought it was:
	// its state is not among Append.From, or its journal has moved on. Nothing was
	// written; read the turn again.
	ErrState = errors.New("the turn has moved on")
	// ErrVersion says that the session is not at NewTurn.SessionVersion, so that
	// what was computed from it is stale. Nothing was written; read the session
	// again and try once more.
	ErrVersion = errors.New("the session has changed")
	// ErrFenced says that somebody else runs the turn by now: it is not at
	// Append.Epoch, or another owner's lease holds. Nothing was written, and whoever
	// gets it must let go of the turn.
	ErrFenced = errors.New("the turn has another owner")
	// ErrEntering says that the session is entering its mode at this moment, so that it
	// cannot be changed. Nothing was written.
	ErrEntering = errors.New("the session is entering its mode")
	// ErrUnknown says that the store was lost on the way to the commit and could not be
	// asked again in time, so that the write may have happened or may still do. Read
	// what it was about before anything is told.
	ErrUnknown = errors.New("whether it was written is unknown")
)

// ActiveError says that the session is busy with another turn: one session has at
// most one active turn. Test for it with errors.As.
type ActiveError struct {
	// Turn is the active one.
	Turn agent.TurnID
}

// Error names the active turn.
func (e *ActiveError) Error() string { return fmt.Sprintf("turn %s is active", e.Turn) }
