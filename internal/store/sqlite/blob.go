package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// Blob returns a content of the organisation by its hash.
func (s *Store) Blob(ctx context.Context, org agent.OrgID, sha256 string) ([]byte, error) {
	data, err := s.read.Blob(ctx, db.BlobParams{Org: org, SHA256: sha256})
	if errors.Is(err, sql.ErrNoRows) {
		err = agent.Errorf(agent.KindNotFound, "There is no content with the hash %q; it goes when the last session that uses it is erased.", sha256)
	}
	if err != nil {
		return nil, explain(fmt.Sprintf("read content %s of %s", sha256, org), err)
	}
	return data, nil
}

// insertBlobs stores the contents that are not there yet and notes who uses them.
func insertBlobs(ctx context.Context, q *db.Queries, k agent.TurnKey, blobs []agent.Blob, created int64) error {
	for _, b := range blobs {
		data := b.Data
		if data == nil {
			data = []byte{} // an empty file is a content too; nil would be NULL
		}
		err := q.InsertBlob(ctx, db.InsertBlobParams{Org: k.Org, SHA256: b.SHA256, MimeType: b.MimeType, Data: data, CreatedAt: created})
		if err != nil {
			return fmt.Errorf("content %s: %w", b.SHA256, err)
		}
		err = q.InsertBlobRef(ctx, db.InsertBlobRefParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn, SHA256: b.SHA256})
		if err != nil {
			return fmt.Errorf("content %s: %w", b.SHA256, err)
		}
	}
	return nil
}
