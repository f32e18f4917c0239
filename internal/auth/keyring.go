package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// Store keeps the keys.
type Store interface {
	CreateKey(ctx context.Context, k agent.APIKey, secret [32]byte) error
	Key(ctx context.Context, id agent.KeyID) (k agent.APIKey, secret [32]byte, err error)
	Keys(ctx context.Context, org agent.OrgID, p store.Page) ([]agent.APIKey, string, error)
	RevokeKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) (agent.APIKey, error)
	TouchKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) error
	AnyKey(ctx context.Context) (bool, error)
}

const (
	// fresh is how long what the store said of a key is good for. Half of the second in
	// which a revocation has to be in force everywhere.
	fresh = 500 * time.Millisecond
	// remembered is how many keys are kept in mind. Only good ones are, so that nobody can
	// push them out by guessing.
	remembered = 10_000
	// lookTime bounds a question to the store, touchTime the note of a key's use.
	lookTime  = 2 * time.Second
	touchTime = 10 * time.Second
	// touchEvery is how exact the last use of a key is.
	touchEvery = time.Hour
)

// Keyring knows the keys of the store, and asks it seldom. Close it before the store.
type Keyring struct {
	store Store
	log   *slog.Logger
	now   func() time.Time
	// tokens tells that there is an issuer: authentication is on without any key, and
	// admins may come from there.
	tokens bool

	found *lru.Cache[agent.KeyID, sighting]
	reads singleflight.Group
	// on tells that there is something to authenticate with; it is never taken back.
	on     atomic.Bool
	looked atomic.Int64 // when that was last asked, in nanoseconds since 1970

	notes sync.WaitGroup
	mu    sync.Mutex // guards noting and closed
	// noting are the keys of which the use is being noted.
	noting map[agent.KeyID]bool
	closed bool
}

// sighting is what the store said of a key, and when.
type sighting struct {
	key    agent.APIKey
	secret [32]byte
	at     time.Time
}

// NewKeyring returns the keyring of a store. tokens tells that an issuer is configured too.
func NewKeyring(s Store, tokens bool, log *slog.Logger) (*Keyring, error) {
	found, err := lru.New[agent.KeyID, sighting](remembered)
	if err != nil {
		return nil, err
	}
	k := &Keyring{store: s, log: log, now: time.Now, tokens: tokens, found: found, noting: map[agent.KeyID]bool{}}
	k.on.Store(tokens)
	return k, nil
}

// Close waits for what is being noted. The keyring notes nothing afterwards.
func (k *Keyring) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.notes.Wait()
}

// On reports whether callers have to authenticate, as far as is known without asking.
func (k *Keyring) On() bool { return k.on.Load() }

// Look reports whether callers have to authenticate. While they have not, the store is
// asked whether somebody has made a key meanwhile, be it on another node.
func (k *Keyring) Look(ctx context.Context) (bool, error) {
	if k.on.Load() || k.now().UnixNano()-k.looked.Load() < int64(fresh) {
		return k.on.Load(), nil
	}
	_, err, _ := k.reads.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
		asked := k.now()
		any, err := k.store.AnyKey(ctx)
		if err != nil {
			return nil, err
		}
		if any {
			k.on.Store(true)
		}
		k.looked.Store(asked.UnixNano())
		return nil, nil
	})
	if err != nil {
		// Whoever was let in before may be a stranger now.
		return true, errStore(err)
	}
	return k.on.Load(), nil
}

// The faults of a key. What is wrong with one is told to those only who know its secret.
func errBadKey() error {
	return agent.Errorf(agent.KindUnauthenticated, "The API key is not valid. Check that it is whole, or ask an admin for another one.")
}

func errStore(err error) error {
	if agent.KindOf(err) == agent.KindUnavailable {
		return err
	}
	return agent.Errorf(agent.KindUnavailable, "Credentials cannot be checked at the moment. Send the same request again shortly.").Because(err)
}

// Check names the caller of a key's text.
func (k *Keyring) Check(ctx context.Context, text string) (agent.Caller, error) {
	id, secret, ok := parse(text)
	if !ok {
		return agent.Caller{}, errBadKey()
	}
	seen, asked, err := k.see(ctx, id)
	if agent.KindOf(err) == agent.KindNotFound {
		return agent.Caller{}, errBadKey()
	}
	if err != nil {
		return agent.Caller{}, errStore(err)
	}
	if subtle.ConstantTimeCompare(seen.secret[:], secret[:]) != 1 {
		return agent.Caller{}, errBadKey()
	}
	now := k.now()
	switch {
	case seen.key.Revoked():
		return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "The API key was revoked. Ask an admin for another one.")
	case seen.key.Expired(now):
		return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "The API key expired at %s. Ask an admin for another one.", seen.key.ExpiresAt.Format(time.RFC3339))
	}
	if asked {
		k.found.Add(id, seen)
	}
	if now.Sub(seen.key.LastUsedAt) >= touchEvery {
		k.note(seen.key)
	}
	return agent.Caller{Org: seen.key.Org, User: seen.key.User, Role: seen.key.Role, Key: id}, nil
}

// see returns what is known of a key, and whether the store was asked for it. Those who
// want it at the same time share the answer.
func (k *Keyring) see(ctx context.Context, id agent.KeyID) (seen sighting, asked bool, err error) {
	if seen, ok := k.found.Get(id); ok && k.now().Sub(seen.at) < fresh {
		return seen, false, nil
	}
	v, err, _ := k.reads.Do(string(id), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
		asked := k.now()
		key, secret, err := k.store.Key(ctx, id)
		if err != nil {
			k.found.Remove(id)
			return nil, err
		}
		return sighting{key, secret, asked}, nil
	})
	if err != nil {
		return sighting{}, true, err
	}
	return v.(sighting), true, nil
}

// note writes down that a key was used, beside the request that used it.
func (k *Keyring) note(key agent.APIKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.noting[key.ID] {
		return
	}
	k.noting[key.ID] = true
	at := k.now()
	k.notes.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), touchTime)
		defer cancel()
		if err := k.store.TouchKey(ctx, key.Org, key.ID, at); err != nil {
			k.log.Warn("the use of a key was not noted", "key", key.ID, "error", err)
		}
		k.found.Remove(key.ID) // so that the note is seen before it is due again
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.noting, key.ID)
	})
}

// NewKey is what a key is to be.
type NewKey struct {
	Org  agent.OrgID
	User agent.UserID
	Role agent.Role // user when empty
	Name string
	// ExpiresAt is zero for never.
	ExpiresAt time.Time
}

// maxName bounds the name of a key, in bytes.
const maxName = 200

// Create makes a key and returns it with its text, which nobody can be told again. An
// admin makes keys of its own organisation. Whoever is at a server on which nobody
// authenticates yet makes those of any; so does a caller without a role, who has the store
// itself.
func (k *Keyring) Create(ctx context.Context, by agent.Caller, n NewKey) (agent.APIKey, string, error) {
	if n.Role == "" {
		n.Role = agent.RoleUser
	}
	on, err := k.Look(ctx)
	if err != nil {
		return agent.APIKey{}, "", err
	}
	if err := k.mayCreate(by, n, on); err != nil {
		return agent.APIKey{}, "", err
	}
	now := k.now().UTC().Truncate(time.Microsecond)
	if !n.ExpiresAt.IsZero() {
		n.ExpiresAt = n.ExpiresAt.UTC().Truncate(time.Microsecond) // as the store keeps it
	}
	if err := n.problem(now); err != nil {
		return agent.APIKey{}, "", err
	}
	id, text := mint(now)
	key := agent.APIKey{ID: id, Org: n.Org, User: n.User, Role: n.Role, Name: n.Name, CreatedAt: now, CreatedBy: by.User, ExpiresAt: n.ExpiresAt}
	_, secret, _ := parse(text)
	if err := k.store.CreateKey(ctx, key, secret); err != nil {
		return agent.APIKey{}, "", fmt.Errorf("create key: %w", err)
	}
	k.on.Store(true)
	k.log.InfoContext(ctx, "key created", "key", id, "org", key.Org, "user", key.User, "role", key.Role, "by", by.User)
	return key, text, nil
}

// mayCreate refuses what the caller may not make, and a first key that would lock
// everybody out.
func (k *Keyring) mayCreate(by agent.Caller, n NewKey, on bool) error {
	if by.Role != "" && on && by.Org != n.Org {
		return agent.Errorf(agent.KindForbidden, "A key is made in the caller's own organisation, %s.", by.Org)
	}
	if !on && n.Role != agent.RoleAdmin {
		return agent.Errorf(agent.KindInvalidRequest,
			"The first key turns authentication on for everybody, so it must have the role %s: no other role can make further keys.", agent.RoleAdmin)
	}
	return nil
}

func (n NewKey) problem(now time.Time) error {
	switch {
	case !agent.ValidID(string(n.Org)):
		return agent.Errorf(agent.KindInvalidRequest, "The organisation of a key has 1 to 128 characters of A-Z a-z 0-9 _ . -")
	case !agent.ValidID(string(n.User)):
		return agent.Errorf(agent.KindInvalidRequest, "The user of a key has 1 to 128 characters of A-Z a-z 0-9 _ . -")
	case !n.Role.Includes(agent.RoleUser):
		return agent.Errorf(agent.KindInvalidRequest, "There is no role %q; want %s, %s or %s.", n.Role, agent.RoleUser, agent.RoleOperator, agent.RoleAdmin)
	case len(n.Name) > maxName || !isPrintable(n.Name):
		return agent.Errorf(agent.KindInvalidRequest, "The name of a key has at most %d bytes, all of them printable.", maxName)
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return agent.Errorf(agent.KindInvalidRequest, "The key would have expired at %s already.", n.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// List pages through the keys of the caller's organisation, oldest first, with those that
// are revoked. A caller without a role names any organisation, or none for all.
func (k *Keyring) List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.APIKey, string, error) {
	return k.store.Keys(ctx, by.Org, p)
}

// ErrLastAdmin says that nobody could make keys of the organisation any more. Test for it
// with errors.Is.
var ErrLastAdmin = errors.New("the last admin key")

// Revoke takes a key of the caller's organisation back; a caller without a role may revoke
// any. The last admin key of an organisation goes only when force says so, with
// ErrLastAdmin otherwise.
func (k *Keyring) Revoke(ctx context.Context, by agent.Caller, id agent.KeyID, force bool) (agent.APIKey, error) {
	key, _, err := k.store.Key(ctx, id)
	if err != nil {
		return agent.APIKey{}, err
	}
	if by.Role != "" && key.Org != by.Org {
		return agent.APIKey{}, agent.Errorf(agent.KindNotFound, "There is no key %q. List the keys to see which there are.", id)
	}
	if !force && !k.tokens {
		if err := k.keepsAdmin(ctx, key); err != nil {
			return agent.APIKey{}, err
		}
	}
	revoked, err := k.store.RevokeKey(ctx, key.Org, id, k.now())
	if err != nil {
		return agent.APIKey{}, fmt.Errorf("revoke key %s: %w", id, err)
	}
	k.found.Remove(id)
	k.log.InfoContext(ctx, "key revoked", "key", id, "org", key.Org, "user", key.User, "by", by.User)
	return revoked, nil
}

// keepsAdmin refuses to leave an organisation without an admin.
func (k *Keyring) keepsAdmin(ctx context.Context, leaving agent.APIKey) error {
	now := k.now()
	if leaving.Role != agent.RoleAdmin || !leaving.Usable(now) {
		return nil
	}
	page := store.Page{Limit: store.MaxLimit}
	for {
		keys, next, err := k.store.Keys(ctx, leaving.Org, page)
		if err != nil {
			return err
		}
		for _, other := range keys {
			if other.ID != leaving.ID && other.Role == agent.RoleAdmin && other.Usable(now) {
				return nil
			}
		}
		if page.Cursor = next; next == "" {
			return agent.Errorf(agent.KindForbidden, "Key %s is the last admin key of %s: without it nobody can make or revoke keys there but on the store itself. "+
				"Make another admin key first, or revoke this one with force.", leaving.ID, leaving.Org).Because(ErrLastAdmin)
		}
	}
}
