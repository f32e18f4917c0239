package sqlite

import (
	"context"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// contents returns the contents of the turn that the steps may repeat. Only a request
// repeats them, and only one whose new items are large; for all others the file is not
// asked.
func (s *Store) contents(ctx context.Context, a store.Append) ([]agent.Blob, error) {
	size := 0
	for _, step := range a.Steps {
		if step.Asked != nil {
			for _, item := range step.Asked.NewItems {
				size += len(item)
			}
		}
	}
	if size < store.MinCut {
		return nil, nil
	}
	rows, err := s.read.TurnBlobs(ctx, db.TurnBlobsParams{Org: a.Key.Org, SessionID: a.Key.Session, TurnID: a.Key.Turn})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.TurnBlobsRow) agent.Blob { return agent.Blob{SHA256: r.SHA256, Data: r.Data} }), nil
}

// mender puts contents back into stored steps. It reads each of them once.
type mender struct {
	content func(sha256 string) ([]byte, error)
}

func (s *Store) mender(ctx context.Context, org agent.OrgID) mender {
	found := map[string][]byte{}
	return mender{func(sha256 string) ([]byte, error) {
		data, ok := found[sha256]
		if ok {
			return data, nil
		}
		data, err := s.read.Blob(ctx, db.BlobParams{Org: org, SHA256: sha256})
		if err != nil {
			return nil, fmt.Errorf("content %s: %w", sha256, err)
		}
		found[sha256] = data
		return data, nil
	}}
}

// step puts the contents back into both parts of a stored step.
func (m mender) step(data, items, cuts []byte) ([]byte, []byte, error) {
	h, err := store.ReadHoles(cuts)
	if err != nil {
		return nil, nil, err
	}
	if data, err = store.Mend(data, h.Data, m.content); err != nil {
		return nil, nil, err
	}
	items, err = store.Mend(items, h.Items, m.content)
	return data, items, err
}

// items is step for one that is only read for its items.
func (m mender) items(items, cuts []byte) ([]byte, error) {
	h, err := store.ReadHoles(cuts)
	if err != nil {
		return nil, err
	}
	return store.Mend(items, h.Items, m.content)
}
