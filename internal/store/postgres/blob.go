package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// Blob returns a content of the organisation by its hash.
func (s *Store) Blob(ctx context.Context, org agent.OrgID, sha256 string) ([]byte, error) {
	var data []byte
	err := s.repeat(ctx, fmt.Sprintf("read content %s of %s", sha256, org), func(ctx context.Context, q *db.Queries) (err error) {
		data, err = q.Blob(ctx, db.BlobParams{Org: org, SHA256: sha256})
		if isMissing(err) {
			return agent.Errorf(agent.KindNotFound, "There is no content with the hash %q; it goes when the last session that uses it is erased.", sha256)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// contentRows are the contents of a turn, column by column.
type contentRows struct {
	hashes      []string
	types, data [][]byte
}

// contentsOf brings each content once, and all turns theirs in the same order, so that
// two that share some do not wait for each other in a circle.
func contentsOf(blobs []agent.Blob) (c contentRows) {
	blobs = slices.SortedFunc(slices.Values(blobs), func(a, b agent.Blob) int { return strings.Compare(a.SHA256, b.SHA256) })
	blobs = slices.CompactFunc(blobs, func(a, b agent.Blob) bool { return a.SHA256 == b.SHA256 })
	for _, b := range blobs {
		c.hashes = append(c.hashes, b.SHA256)
		c.types = append(c.types, text(b.MimeType))
		c.data = append(c.data, append([]byte{}, b.Data...)) // an empty file is a content too; nil would be NULL
	}
	return c
}

// contents returns the contents of the turn that the steps may repeat.
func (s *Store) contents(ctx context.Context, doing string, a store.Append) ([]agent.Blob, error) {
	if !store.MayRepeat(a.Steps) {
		return nil, nil
	}
	var rows []db.TurnBlobsRow
	err := s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.TurnBlobs(ctx, db.TurnBlobsParams{Org: a.Key.Org, SessionID: a.Key.Session, TurnID: a.Key.Turn})
		return err
	})
	return convert(rows, func(r db.TurnBlobsRow) agent.Blob { return agent.Blob{SHA256: r.SHA256, Data: r.Data} }), err
}

// mender puts contents of the organisation back into stored steps.
func (s *Store) mender(ctx context.Context, org agent.OrgID) *store.Mender {
	return store.NewMender(func(sha256 string) ([]byte, error) { return s.Blob(ctx, org, sha256) })
}
