package store

import (
	"context"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Lease says who runs a turn, and for how long nobody else may. The keeper judges the
// time by its own clock. The zero value is no lease.
type Lease struct {
	// Owner names the process; no two that run at the same time have the same name.
	Owner string
	For   time.Duration
}

// Claim is a turn that an owner runs, with the epoch that its writes carry
// (Append.Epoch).
type Claim struct {
	Key   agent.TurnKey
	Epoch int64
}

// Position is how far a turn has come: whenever it moves, its position is another one.
type Position struct {
	Key   agent.TurnKey
	State agent.TurnState
	Steps int64
	Epoch int64
}

// Leasing is what a keeper does whose turns may be run by any of many processes. One
// process alone needs none of it, and its keeper takes leases for what they are not: it
// ignores them.
//
// A turn that runs has one owner, who claims it when it opens it (NewTurn.Lease), when it
// starts it from the queue or goes on with it after it has waited (Append.Lease), or by
// Takeover. Each claim moves the turn's epoch on by one, and a write of another epoch is
// refused with ErrFenced: an owner that was paused finds out at its next write, whatever
// its clock says. Whoever ends a turn that another one runs moves the epoch on as well
// (Append.Fence). Turns that wait, for their client or for their session, and turns that
// are over, have no owner.
type Leasing interface {
	// Renew makes the leases of these turns last from now on as long as given, also those
	// that have run out and that nobody has taken. It returns the turns that the owner has
	// no more: it must let go of them. A turn that is written to at this moment may be left
	// for the next time, so renew several times within a lease.
	Renew(ctx context.Context, owner string, claims []Claim, lease time.Duration) (lost []agent.TurnKey, err error)
	// Takeover claims turns that should run and whose lease has run out or was released,
	// the longest abandoned first, and no more than so many. Owners that ask at the same
	// time get different ones, and none waits for another.
	Takeover(ctx context.Context, owner string, lease time.Duration, most int) ([]Claim, error)
	// Positions returns how far these turns have come, by one statement however many they
	// are, so that a process can watch what others run. A turn that is not there is left
	// out.
	Positions(ctx context.Context, keys []agent.TurnKey) ([]Position, error)
	// Release gives leases up before their time, so that the next Takeover finds the turns.
	Release(ctx context.Context, owner string, claims []Claim) error
}
