package sqlite

import (
	"context"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// contents returns the contents of the turn that the steps may repeat.
func (s *Store) contents(ctx context.Context, a store.Append) ([]agent.Blob, error) {
	if !store.MayRepeat(a.Steps) {
		return nil, nil
	}
	rows, err := s.read.TurnBlobs(ctx, db.TurnBlobsParams{Org: a.Key.Org, SessionID: a.Key.Session, TurnID: a.Key.Turn})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.TurnBlobsRow) agent.Blob { return agent.Blob{SHA256: r.SHA256, Data: r.Data} }), nil
}

// mender puts contents of the organisation back into stored steps.
func (s *Store) mender(ctx context.Context, org agent.OrgID) *store.Mender {
	return store.NewMender(func(sha256 string) ([]byte, error) {
		return s.read.Blob(ctx, db.BlobParams{Org: org, SHA256: sha256})
	})
}
