package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holder is who has the store itself.
var holder = agent.Caller{User: "local"}

// counted is a store that counts what it is asked, and can be away.
type counted struct {
	Store
	keys, any, touched atomic.Int64
	away               atomic.Bool
}

var errAway = errors.New("the store is away")

func (c *counted) Key(ctx context.Context, id agent.KeyID) (agent.APIKey, [32]byte, error) {
	c.keys.Add(1)
	if c.away.Load() {
		return agent.APIKey{}, [32]byte{}, errAway
	}
	return c.Store.Key(ctx, id)
}

func (c *counted) AnyKey(ctx context.Context) (bool, error) {
	c.any.Add(1)
	if c.away.Load() {
		return false, errAway
	}
	return c.Store.AnyKey(ctx)
}

func (c *counted) TouchKey(ctx context.Context, org agent.OrgID, id agent.KeyID, at time.Time) error {
	c.touched.Add(1)
	return c.Store.TouchKey(ctx, org, id, at)
}

// clock is the time of a keyring.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type keys struct {
	*Keyring
	store *counted
	clock *clock
}

func openKeys(t *testing.T) keys {
	t.Helper()
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aptix.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := secondNode(t, &counted{Store: file})
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// secondNode is a keyring of another process on the same store.
func secondNode(t *testing.T, s *counted) keys {
	t.Helper()
	k, err := NewKeyring(s, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{now: time.Now()}
	k.now = c.Now
	t.Cleanup(k.Close)
	return keys{k, s, c}
}

func (k keys) make(t *testing.T, n NewKey) (agent.APIKey, string) {
	t.Helper()
	key, text, err := k.Create(t.Context(), holder, n)
	if err != nil {
		t.Fatal(err)
	}
	return key, text
}

var admin = NewKey{Org: "acme", User: "ada", Role: agent.RoleAdmin}

func wantKind(t *testing.T, err error, kind agent.Kind) {
	t.Helper()
	if err == nil || agent.KindOf(err) != kind {
		t.Errorf("got %v, want %s", err, kind)
	}
}

func TestMint_NoTextIsTakenThatWasNotMinted(t *testing.T) {
	now := time.Unix(1<<33, 0)
	id, text := mint(now)
	later, _ := mint(now.Add(time.Second))
	if later <= id {
		t.Errorf("a key that was made later has the id %s, which is before %s", later, id)
	}
	if got, _, ok := parse(text); !ok || got != id {
		t.Fatalf("parse %q: %q, %v", text, got, ok)
	}
	for i := range text {
		for _, b := range []byte{'0', 'z', '_', 0, 0xff} {
			wrong := text[:i] + string([]byte{b}) + text[i+1:]
			if _, _, ok := parse(wrong); ok && wrong != text {
				t.Errorf("%q is taken for a key", wrong)
			}
		}
	}
	for _, wrong := range []string{"", Prefix, text[:len(text)-1], text + "a", strings.ToUpper(text), " " + text, strings.TrimPrefix(text, Prefix)} {
		if _, _, ok := parse(wrong); ok {
			t.Errorf("%q is taken for a key", wrong)
		}
	}
}

// S-13: a key is good on every node from the moment on in which it was made, and for none
// a second after it was revoked.
func TestKeyring_RevocationIsInForceEverywhereWithinASecond(t *testing.T) {
	here := openKeys(t)
	there := secondNode(t, here.store)
	if on, err := there.Look(t.Context()); on || err != nil {
		t.Fatalf("authentication is on (%v) without a key", err)
	}
	_, _ = here.make(t, admin)
	key, text := here.make(t, NewKey{Org: "acme", User: "bob"})
	there.clock.pass(time.Second - 1)
	if on, err := there.Look(t.Context()); !on || err != nil {
		t.Errorf("the other node does not know of the first key (%v)", err)
	}
	for _, node := range []keys{here, there} {
		who, err := node.Check(t.Context(), text)
		if err != nil || who != (agent.Caller{Org: "acme", User: "bob", Role: agent.RoleUser, Key: key.ID}) {
			t.Errorf("got %+v, %v", who, err)
		}
	}
	if _, err := here.Revoke(t.Context(), holder, key.ID, false); err != nil {
		t.Fatal(err)
	}
	_, err := here.Check(t.Context(), text)
	wantKind(t, err, agent.KindUnauthenticated)
	there.clock.pass(time.Second - 1)
	_, err = there.Check(t.Context(), text)
	wantKind(t, err, agent.KindUnauthenticated)
	if on, _ := there.Look(t.Context()); !on {
		t.Error("authentication is off again")
	}
}

func TestKeyring_ExpiryNeedsNoLook(t *testing.T) {
	k := openKeys(t)
	k.make(t, admin)
	_, text := k.make(t, NewKey{Org: "acme", User: "bob", ExpiresAt: k.clock.Now().Add(100 * time.Millisecond)})
	if _, err := k.Check(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	// The note of its first use makes the keyring forget it, for one more look.
	k.notes.Wait()
	if _, err := k.Check(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	asked := k.store.keys.Load()
	k.clock.pass(100 * time.Millisecond)
	_, err := k.Check(t.Context(), text)
	wantKind(t, err, agent.KindUnauthenticated)
	if got := k.store.keys.Load(); got != asked {
		t.Errorf("the store was asked %d times more", got-asked)
	}
}

// A turn pays for no look that was just made, and strangers leave nothing behind.
func TestKeyring_AsksTheStoreSeldom(t *testing.T) {
	k := openKeys(t)
	_, text := k.make(t, admin)
	for range 1000 {
		if _, err := k.Check(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	k.notes.Wait()
	// The first look, and those after the note of its first use.
	if got := k.store.keys.Load(); got > 5 {
		t.Errorf("1000 requests asked the store %d times", got)
	}
	for range 50 {
		_, stranger := mint(k.clock.Now())
		_, err := k.Check(t.Context(), stranger)
		wantKind(t, err, agent.KindUnauthenticated)
	}
	id, _, _ := parse(text)
	body := Prefix + string(id) + "_" + strings.Repeat("a", secretLen)
	_, err := k.Check(t.Context(), body+checksum(body))
	wantKind(t, err, agent.KindUnauthenticated)
	if k.found.Len() > 1 {
		t.Errorf("%d keys are remembered", k.found.Len())
	}
}

// What a request pays for its key.
func BenchmarkKeyring_Check(b *testing.B) {
	file, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "aptix.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	k, err := NewKeyring(file, false, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	_, text, err := k.Create(b.Context(), holder, admin)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Check(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	k.Close()
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
}

func TestKeyring_UseIsNotedOnceAnHourBesideTheRequest(t *testing.T) {
	k := openKeys(t)
	key, text := k.make(t, admin)
	for _, wait := range []time.Duration{0, time.Second, 30 * time.Minute, 20 * time.Minute, 11 * time.Minute} {
		k.clock.pass(wait)
		if _, err := k.Check(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		k.notes.Wait()
	}
	if got := k.store.touched.Load(); got != 2 {
		t.Errorf("the use was noted %d times in %s, want 2", got, "61 minutes")
	}
	stored, _, err := k.store.Store.Key(t.Context(), key.ID)
	if err != nil || !stored.LastUsedAt.Equal(k.clock.Now().Truncate(time.Microsecond)) {
		t.Errorf("last used %s (%v), want %s", stored.LastUsedAt, err, k.clock.Now())
	}
}

// A store that is away lets nobody in, be it that nobody had to authenticate before.
func TestKeyring_StoreIsAway(t *testing.T) {
	k := openKeys(t)
	k.store.away.Store(true)
	_, err := k.Look(t.Context())
	wantKind(t, err, agent.KindUnavailable)
	k.store.away.Store(false)
	_, text := k.make(t, admin)
	k.store.away.Store(true)
	_, err = k.Check(t.Context(), text)
	wantKind(t, err, agent.KindUnavailable)
}

func TestKeyring_WhoMayMakeWhat(t *testing.T) {
	k := openKeys(t)
	by := func(c agent.Caller, n NewKey) error {
		_, _, err := k.Create(t.Context(), c, n)
		return err
	}
	wantKind(t, by(agent.Local(), NewKey{Org: "acme", User: "bob"}), agent.KindInvalidRequest) // would lock everybody out
	if err := by(agent.Local(), admin); err != nil {
		t.Fatal(err)
	}
	// The door through which the first one came is shut.
	wantKind(t, by(agent.Local(), NewKey{Org: "globex", User: "eve", Role: agent.RoleAdmin}), agent.KindForbidden)
	ada := agent.Caller{Org: "acme", User: "ada", Role: agent.RoleAdmin, Key: "k"}
	wantKind(t, by(ada, NewKey{Org: "globex", User: "ada"}), agent.KindForbidden)
	for _, n := range []NewKey{
		{Org: "acme"}, {Org: "acme", User: "a b"}, {Org: "acme", User: "bob", Role: "root"}, {Org: "acme", User: "bob", Name: strings.Repeat("x", maxName+1)},
		{Org: "acme", User: "bob", Name: "\x1b[2J"}, {Org: "acme", User: "bob", ExpiresAt: k.clock.Now()},
	} {
		wantKind(t, by(ada, n), agent.KindInvalidRequest)
	}
	for _, n := range []NewKey{{Org: "globex", User: "gil", Role: agent.RoleAdmin}, {Org: "initech", User: "ida"}} {
		if err := by(holder, n); err != nil {
			t.Errorf("who has the store: %v", err)
		}
	}
	all, _, err := k.List(t.Context(), ada, store.Page{})
	if err != nil || len(all) != 1 || all[0].Org != "acme" {
		t.Errorf("an admin of acme sees %v (%v)", all, err)
	}
}

func TestKeyring_LastAdminKeyIsKept(t *testing.T) {
	k := openKeys(t)
	first, _ := k.make(t, admin)
	soon, _ := k.make(t, NewKey{Org: "acme", User: "ada", Role: agent.RoleAdmin, ExpiresAt: k.clock.Now().Add(time.Hour)})
	foreign, _ := k.make(t, NewKey{Org: "globex", User: "gil", Role: agent.RoleAdmin})
	ada := agent.Caller{Org: "acme", User: "ada", Role: agent.RoleAdmin, Key: first.ID}
	_, err := k.Revoke(t.Context(), ada, foreign.ID, true)
	wantKind(t, err, agent.KindNotFound)

	k.clock.pass(2 * time.Hour) // the second one has expired
	_, err = k.Revoke(t.Context(), ada, first.ID, false)
	if !errors.Is(err, ErrLastAdmin) {
		t.Errorf("got %v, want ErrLastAdmin", err)
	}
	if _, err := k.Revoke(t.Context(), ada, soon.ID, false); err != nil {
		t.Error(err)
	}
	if _, err := k.Revoke(t.Context(), ada, first.ID, true); err != nil {
		t.Error(err)
	}
}

// S-14: who guesses is held up, who has a good key is not, and nothing grows with the
// number of those who guess.
func TestFailures_BoundWhoGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFailures(time.Now)
		if err != nil {
			t.Fatal(err)
		}
		fault := errBadKey()
		count := func(remote string) agent.Kind { return agent.KindOf(f.Count(remote, fault)) }
		for range failureBurst {
			if got := count("192.0.2.1:1"); got != agent.KindUnauthenticated {
				t.Fatalf("got %s within the burst", got)
			}
		}
		held := f.Count("192.0.2.1:2", fault)
		wantKind(t, held, agent.KindRateLimited)
		if wait := agent.FaultOf(held).RetryAfter; wait <= 0 || wait > failureEvery {
			t.Errorf("Retry-After %s", wait)
		} else {
			time.Sleep(wait)
		}
		if got := count("[::ffff:192.0.2.1]:9"); got != agent.KindUnauthenticated {
			t.Errorf("got %s after the time that was told", got)
		}
		if got := count("192.0.2.2:1"); got != agent.KindUnauthenticated {
			t.Errorf("got %s from another address", got)
		}
		for range failureBurst {
			count("[2001:db8::1]:1")
		}
		if got := count("[2001:db8::ffff]:1"); got != agent.KindRateLimited {
			t.Errorf("got %s from the same network", got)
		}
		for i := range watched + 100 {
			count(fmt.Sprintf("10.%d.%d.1:1", i/250, i%250))
		}
		if f.of.Len() > watched {
			t.Errorf("%d addresses are remembered", f.of.Len())
		}
	})
}
