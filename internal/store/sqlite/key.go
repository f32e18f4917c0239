package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// CreateKey stores a new API key with the SHA-256 of its secret. It returns
// store.ErrExists when there is a key with this id, of whatever organisation.
func (s *Store) CreateKey(ctx context.Context, k agent.APIKey, secret [32]byte) error {
	return s.begin(ctx, fmt.Sprintf("create key %s", k.ID), func(ctx context.Context, q *db.Queries) error {
		n, err := q.InsertKey(ctx, db.InsertKeyParams{
			Org: k.Org, KeyID: k.ID, UserID: k.User, Name: k.Name, Role: k.Role, SecretSHA256: secret[:],
			CreatedAt: s.stamp(k.CreatedAt), CreatedBy: k.CreatedBy, ExpiresAt: micros(k.ExpiresAt),
		})
		if err == nil && n == 0 {
			return store.ErrExists
		}
		if err != nil {
			return err
		}
		return s.record(ctx, q, store.KeyEntry(agent.AuditKeyCreated, k.Org, k.ID, agent.OriginOf(ctx)))
	})
}

// Key returns a key by its id alone, with the SHA-256 of its secret.
func (s *Store) Key(ctx context.Context, id agent.KeyID) (agent.APIKey, [32]byte, error) {
	row, err := s.read.KeyByID(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return agent.APIKey{}, [32]byte{}, noKey(id)
	}
	if err != nil {
		return agent.APIKey{}, [32]byte{}, explain(fmt.Sprintf("read key %s", id), err)
	}
	return keyOf(row), [32]byte(row.SecretSHA256), nil // the table has no other length
}

const keyList = "keys"

// Keys returns a page of an organisation's keys, oldest first, also of those that are
// revoked; of all organisations when none is named.
func (s *Store) Keys(ctx context.Context, org agent.OrgID, page store.Page) ([]agent.APIKey, string, error) {
	after, err := page.After(keyList, 2)
	if err != nil {
		return nil, "", err
	}
	if after == nil {
		after = []string{"", ""}
	}
	size := int64(page.Size()) + 1
	var rows []db.ApiKey
	if org != "" {
		rows, err = s.read.Keys(ctx, db.KeysParams{Org: org, After: agent.KeyID(after[1]), Size: size})
	} else {
		// sqlc gives all members of a row the first one's type.
		rows, err = s.read.AllKeys(ctx, db.AllKeysParams{Org: agent.OrgID(after[0]), KeyID: agent.OrgID(after[1]), Size: size})
	}
	if err != nil {
		return nil, "", explain("list the keys", err)
	}
	rows, next := cut(rows, page, func(r db.ApiKey) string { return store.Cursor(keyList, string(r.Org), string(r.KeyID)) })
	return convert(rows, keyOf), next, nil
}

// RevokeKey takes a key back for good and returns it. One that is revoked already stays as
// it is.
func (s *Store) RevokeKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) (k agent.APIKey, err error) {
	err = s.write(ctx, fmt.Sprintf("revoke key %s", id), func(ctx context.Context, q *db.Queries) error {
		n, err := q.RevokeKey(ctx, db.RevokeKeyParams{Org: org, KeyID: id, RevokedAt: s.stamp(at)})
		if err == nil && n > 0 {
			err = s.record(ctx, q, store.KeyEntry(agent.AuditKeyRevoked, org, id, agent.OriginOf(ctx)))
		}
		if err != nil {
			return err
		}
		row, err := q.Key(ctx, db.KeyParams{Org: org, KeyID: id})
		if errors.Is(err, sql.ErrNoRows) {
			return noKey(id)
		}
		k = keyOf(row)
		return err
	})
	return k, err
}

// revokeKeysOf revokes the keys of an organisation, or of one user of it.
func (s *Store) revokeKeysOf(ctx context.Context, q *db.Queries, org agent.OrgID, user agent.UserID) error {
	ids, err := q.RevokeKeysOf(ctx, db.RevokeKeysOfParams{Org: org, UserID: string(user), RevokedAt: micros(s.now())})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.record(ctx, q, store.KeyEntry(agent.AuditKeyRevoked, org, id, agent.OriginOf(ctx))); err != nil {
			return err
		}
	}
	return nil
}

// TouchKey notes that a key was used, unless that was noted within the hour before.
func (s *Store) TouchKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) error {
	return s.begin(ctx, fmt.Sprintf("note the use of key %s", id), func(ctx context.Context, q *db.Queries) error {
		return q.TouchKey(ctx, db.TouchKeyParams{Org: org, KeyID: id, LastUsedAt: micros(at), Before: micros(at.Add(-time.Hour))})
	})
}

// AnyKey reports whether there is a key of anybody, or has been one.
func (s *Store) AnyKey(ctx context.Context) (bool, error) {
	found, err := s.read.AnyKey(ctx)
	return found, explain("look for keys", err)
}

func keyOf(r db.ApiKey) agent.APIKey {
	return agent.APIKey{
		ID: r.KeyID, Org: r.Org, User: r.UserID, Role: r.Role, Name: r.Name,
		CreatedAt: instant(r.CreatedAt), CreatedBy: r.CreatedBy,
		ExpiresAt: instant(r.ExpiresAt), RevokedAt: instant(r.RevokedAt), LastUsedAt: instant(r.LastUsedAt),
	}
}

func noKey(id agent.KeyID) error {
	return agent.Errorf(agent.KindNotFound, "There is no key %q. List the keys to see which there are.", id)
}
