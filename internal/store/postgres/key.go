package postgres

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// CreateKey stores a new API key with the SHA-256 of its secret. It returns
// store.ErrExists when there is a key with this id, of whatever organisation.
func (s *Store) CreateKey(ctx context.Context, k agent.APIKey, secret [32]byte) error {
	row := db.InsertKeyParams{
		Org: k.Org, KeyID: k.ID, UserID: k.User, Name: k.Name, Role: k.Role, SecretSHA256: secret[:],
		CreatedAt: s.stamp(k.CreatedAt), CreatedBy: k.CreatedBy, ExpiresAt: micros(k.ExpiresAt),
	}
	entry := s.auditRow(store.KeyEntry(agent.AuditKeyCreated, k.Org, k.ID, agent.OriginOf(ctx)))
	return s.begin(ctx, unit{
		doing: fmt.Sprintf("create key %s", k.ID),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				n, err := q.InsertKey(ctx, row)
				if err == nil && n == 0 {
					return store.ErrExists
				}
				if err != nil {
					return err
				}
				return q.InsertAudit(ctx, entry)
			})
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			got, err := q.KeyByID(ctx, k.ID)
			if isMissing(err) {
				return false, nil
			}
			return err == nil && bytes.Equal(got.SecretSHA256, secret[:]), err // nobody else has this secret
		},
	})
}

// Key returns a key by its id alone, with the SHA-256 of its secret.
func (s *Store) Key(ctx context.Context, id agent.KeyID) (agent.APIKey, [32]byte, error) {
	var row db.ApiKey
	err := s.repeat(ctx, fmt.Sprintf("read key %s", id), func(ctx context.Context, q *db.Queries) (err error) {
		if row, err = q.KeyByID(ctx, id); isMissing(err) {
			return noKey(id)
		}
		return err
	})
	if err != nil {
		return agent.APIKey{}, [32]byte{}, err
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
	size := int32(page.Size()) + 1
	var rows []db.ApiKey
	err = s.repeat(ctx, "list the keys", func(ctx context.Context, q *db.Queries) (err error) {
		if org != "" {
			rows, err = q.Keys(ctx, db.KeysParams{Org: org, After: agent.KeyID(after[1]), Size: size})
			return err
		}
		// sqlc gives all members of a row the first one's type.
		rows, err = q.AllKeys(ctx, db.AllKeysParams{Org: agent.OrgID(after[0]), KeyID: agent.OrgID(after[1]), Size: size})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.ApiKey) string { return store.Cursor(keyList, string(r.Org), string(r.KeyID)) })
	return convert(rows, keyOf), next, nil
}

// RevokeKey takes a key back for good and returns it. One that is revoked already stays as
// it is.
func (s *Store) RevokeKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) (agent.APIKey, error) {
	// It may be done again: the first moment stays, and so does its entry.
	entry := s.auditRow(store.KeyEntry(agent.AuditKeyRevoked, org, id, agent.OriginOf(ctx)))
	revoke := db.RevokeKeyParams{Org: org, KeyID: id, RevokedAt: s.stamp(at)}
	var row db.ApiKey
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("revoke key %s", id),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				n, err := q.RevokeKey(ctx, revoke)
				if err == nil && n > 0 {
					err = q.InsertAudit(ctx, entry)
				}
				if err != nil {
					return err
				}
				if row, err = q.Key(ctx, db.KeyParams{Org: org, KeyID: id}); isMissing(err) {
					return noKey(id)
				}
				return err
			})
		},
		landed: func(context.Context, *db.Queries) (bool, error) { return false, nil },
	})
	if err != nil {
		return agent.APIKey{}, err
	}
	return keyOf(row), nil
}

// revokeKeysOf revokes the keys of an organisation, or of one user of it.
func (s *Store) revokeKeysOf(ctx context.Context, q *db.Queries, org agent.OrgID, user agent.UserID) error {
	ids, err := q.RevokeKeysOf(ctx, db.RevokeKeysOfParams{Org: org, UserID: string(user), RevokedAt: micros(s.now())})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := q.InsertAudit(ctx, s.auditRow(store.KeyEntry(agent.AuditKeyRevoked, org, id, agent.OriginOf(ctx)))); err != nil {
			return err
		}
	}
	return nil
}

// TouchKey notes that a key was used, unless that was noted within the hour before.
func (s *Store) TouchKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) error {
	return s.repeat(ctx, fmt.Sprintf("note the use of key %s", id), func(ctx context.Context, q *db.Queries) error {
		return q.TouchKey(ctx, db.TouchKeyParams{Org: org, KeyID: id, LastUsedAt: micros(at), Before: micros(at.Add(-time.Hour))})
	})
}

// AnyKey reports whether there is a key of anybody, or has been one.
func (s *Store) AnyKey(ctx context.Context) (found bool, err error) {
	err = s.repeat(ctx, "look for keys", func(ctx context.Context, q *db.Queries) (err error) {
		found, err = q.AnyKey(ctx)
		return err
	})
	return found, err
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
