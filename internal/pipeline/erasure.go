package pipeline

import (
	"context"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// Erasures are what the store keeps of the erasing of users and organisations.
type Erasures interface {
	AcceptErasure(ctx context.Context, e store.Erasure) error
	Erasure(ctx context.Context, org agent.OrgID, id string) (store.Erasure, error)
	ClaimErasure(ctx context.Context, lease time.Duration) (e store.Erasure, found bool, err error)
	MoveErasure(ctx context.Context, e store.Erasure, erased int, lease time.Duration) error
	FinishErasure(ctx context.Context, e store.Erasure) error
	SweepErasures(ctx context.Context, before time.Time) error
	SessionsAfter(ctx context.Context, org agent.OrgID, after agent.SessionID, most int) ([]store.Owned, error)
	ForgetUser(ctx context.Context, org agent.OrgID, id agent.SessionID, user agent.UserID) error
}

// Indexes are what is searched for an organisation.
type Indexes interface {
	// RemoveAll removes all of an organisation and returns how many there were.
	RemoveAll(ctx context.Context, org agent.OrgID) (int, error)
}

const (
	// erasureEvery is how often is looked for erasures that nobody works on.
	erasureEvery = time.Second
	// erasurePiece is how many sessions are looked at before it is recorded how far it has
	// come.
	erasurePiece = 100
	// erasureLease is for how long an erasure belongs to a node that says nothing.
	erasureLease = time.Minute
	// erasuresKept is how long a finished one can be read, erasureSweep how often is looked
	// for those that are older.
	erasuresKept = 7 * 24 * time.Hour
	erasureSweep = time.Hour
)

// EraseUser accepts the erasing of a user of the caller's organisation: of every session
// that he created, and of his name wherever else it stands, but for the audit log. His keys
// end with this call; the rest is done in pieces, by whichever node finds it, and goes on
// after a crash.
func (p *Pipeline) EraseUser(ctx context.Context, by agent.Caller, user agent.UserID) (store.Erasure, error) {
	return p.acceptErasure(ctx, store.Erasure{Org: by.Org, User: user})
}

// EraseOrganisation accepts the erasing of everything that the caller's organisation has,
// but for its audit log and its erasures. Its keys end with this call.
func (p *Pipeline) EraseOrganisation(ctx context.Context, by agent.Caller) (store.Erasure, error) {
	return p.acceptErasure(ctx, store.Erasure{Org: by.Org})
}

func (p *Pipeline) acceptErasure(ctx context.Context, e store.Erasure) (store.Erasure, error) {
	e.CreatedAt = p.Now().UTC().Truncate(time.Microsecond)
	e.ID = store.NewErasureID(e.CreatedAt)
	return e, p.Store.AcceptErasure(ctx, e)
}

// Erasure returns how far an erasure of the caller's organisation has come.
func (p *Pipeline) Erasure(ctx context.Context, by agent.Caller, id string) (store.Erasure, error) {
	return p.Store.Erasure(ctx, by.Org, id)
}

// eraseOften works on erasures until ctx ends. What is left of them is for the next start,
// or for another node.
func (p *Pipeline) eraseOften(ctx context.Context) {
	tick := time.NewTicker(erasureEvery)
	defer tick.Stop()
	var swept time.Time
	for {
		err := p.eraseAccepted(ctx)
		if err == nil && time.Since(swept) > erasureSweep {
			swept, err = time.Now(), p.Store.SweepErasures(ctx, p.Now().Add(-erasuresKept))
		}
		if err != nil && ctx.Err() == nil {
			p.Log.Error("erase users and organisations", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// eraseAccepted works on erasures as long as there are any.
func (p *Pipeline) eraseAccepted(ctx context.Context) error {
	for ctx.Err() == nil {
		e, found, err := p.Store.ClaimErasure(ctx, erasureLease)
		if err != nil || !found {
			return err
		}
		if err := p.erase(ctx, e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// erase goes on with an erasure from where it stands. Sessions that are made meanwhile may
// go with it, or stay.
func (p *Pipeline) erase(ctx context.Context, e store.Erasure) error {
	for {
		sessions, err := p.Store.SessionsAfter(ctx, e.Org, e.After, erasurePiece)
		if err != nil {
			return err
		}
		if len(sessions) == 0 {
			break
		}
		erased := 0
		for _, s := range sessions {
			gone, err := p.eraseFrom(ctx, e, s)
			if err != nil {
				return err
			}
			if gone {
				erased++
			}
			e.After = s.Session
		}
		if err := p.Store.MoveErasure(ctx, e, erased, erasureLease); err != nil {
			return err
		}
	}
	if p.Indexes != nil && e.User == "" {
		if _, err := p.Indexes.RemoveAll(ctx, e.Org); err != nil {
			return err
		}
	}
	if err := p.Store.FinishErasure(ctx, e); err != nil {
		return err
	}
	p.Log.Info("erased", "erasure", e.ID, "org", e.Org)
	return nil
}

// eraseFrom erases a session, or a user's name in it, and reports whether the session is
// gone by that.
func (p *Pipeline) eraseFrom(ctx context.Context, e store.Erasure, s store.Owned) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if e.User != "" && s.User != e.User {
		return false, p.Store.ForgetUser(ctx, e.Org, s.Session, e.User)
	}
	err := p.Erase(ctx, agent.Caller{Org: e.Org}, s.Session)
	if agent.KindOf(err) == agent.KindNotFound {
		return false, nil // somebody else has erased it
	}
	return err == nil, err
}
