package postgres

import (
	"context"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

var _ store.Leasing = (*Store)(nil)

// Renew implements store.Leasing.
func (s *Store) Renew(ctx context.Context, owner string, claims []store.Claim, lease time.Duration) ([]agent.TurnKey, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	c := columns(claims)
	var rows []db.RenewLeasesRow
	err := s.repeat(ctx, "renew leases", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.RenewLeases(ctx, db.RenewLeasesParams{Owner: owner, Lease: lease.Microseconds(),
			Orgs: c.orgs, Sessions: c.sessions, Turns: c.turns, Epochs: c.epochs})
		return err
	})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.RenewLeasesRow) agent.TurnKey {
		return agent.TurnKey{Org: agent.OrgID(r.Org), Session: agent.SessionID(r.SessionID), Turn: agent.TurnID(r.TurnID)}
	}), nil
}

// Takeover implements store.Leasing. When the answer is lost, so are the turns that were
// in it, until the lease that nobody knows of runs out.
func (s *Store) Takeover(ctx context.Context, owner string, lease time.Duration, most int) ([]store.Claim, error) {
	var rows []db.TakeoverRow
	err := s.repeat(ctx, "take turns over", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Takeover(ctx, db.TakeoverParams{Owner: owner, Lease: lease.Microseconds(), Size: int32(most)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.TakeoverRow) store.Claim {
		return store.Claim{Key: agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID}, Epoch: r.Epoch}
	}), nil
}

// Release implements store.Leasing.
func (s *Store) Release(ctx context.Context, owner string, claims []store.Claim) error {
	if len(claims) == 0 {
		return nil
	}
	c := columns(claims)
	return s.repeat(ctx, "release leases", func(ctx context.Context, q *db.Queries) error {
		return q.ReleaseLeases(ctx, db.ReleaseLeasesParams{Owner: owner, Orgs: c.orgs, Sessions: c.sessions, Turns: c.turns, Epochs: c.epochs})
	})
}

// Positions implements store.Leasing.
func (s *Store) Positions(ctx context.Context, keys []agent.TurnKey) ([]store.Position, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	c := columns(convert(keys, func(k agent.TurnKey) store.Claim { return store.Claim{Key: k} }))
	var rows []db.PositionsRow
	err := s.repeat(ctx, "see how far turns have come", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Positions(ctx, db.PositionsParams{Orgs: c.orgs, Sessions: c.sessions, Turns: c.turns})
		return err
	})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.PositionsRow) store.Position {
		return store.Position{Key: agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID}, State: r.State, Steps: r.Steps, Epoch: r.Epoch}
	}), nil
}

// claimColumns are claims, column by column.
type claimColumns struct {
	orgs, sessions, turns []string
	epochs                []int64
}

func columns(claims []store.Claim) (c claimColumns) {
	for _, claim := range claims {
		c.orgs = append(c.orgs, string(claim.Key.Org))
		c.sessions = append(c.sessions, string(claim.Key.Session))
		c.turns = append(c.turns, string(claim.Key.Turn))
		c.epochs = append(c.epochs, claim.Epoch)
	}
	return c
}
