package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func keyTests() []test {
	return []test{
		{"CreatedKeySurvivesReopening", createdKeySurvives},
		{"SecondKeyOfAnIDIsRefused", secondKeyRefused},
		{"KeysAreListedByOrganisation", keyList},
		{"RevokedKeyStaysAndIsRevokedOnce", revokeKey},
		{"UseIsNotedOnceAnHour", touchKey},
		{"AnyKeyIsTrueForRevokedOnesToo", anyKey},
	}
}

func newKey(id agent.KeyID) agent.APIKey {
	return agent.APIKey{ID: id, Org: org, User: "ann", Role: agent.RoleUser, Name: "Ann's laptop",
		CreatedAt: start.UTC(), CreatedBy: "ada", ExpiresAt: at(90).UTC()}
}

func secretOf(id agent.KeyID) [32]byte { return sha256.Sum256([]byte(id)) }

func createKey(t *testing.T, s Store, k agent.APIKey) {
	t.Helper()
	if err := s.CreateKey(t.Context(), k, secretOf(k.ID)); err != nil {
		t.Fatalf("CreateKey: %v", err)
	}
}

func readKey(t *testing.T, s Store, id agent.KeyID) agent.APIKey {
	t.Helper()
	k, secret, err := s.Key(t.Context(), id)
	if err != nil {
		t.Fatalf("Key: %v", err)
	}
	if secret != secretOf(id) {
		t.Errorf("key %s has the hash %x", id, secret)
	}
	return k
}

func createdKeySurvives(t *testing.T, d *data) {
	want := newKey("k1")
	createKey(t, d, want)
	forever := newKey("k2")
	forever.ExpiresAt, forever.Name = want.RevokedAt, ""
	createKey(t, d, forever)
	d.reopen(t)
	same(t, "key", readKey(t, d, "k1"), want)
	same(t, "key without an end", readKey(t, d, "k2"), forever)
	_, _, err := d.Key(t.Context(), "k3")
	wantKind(t, err, agent.KindNotFound)
}

func secondKeyRefused(t *testing.T, d *data) {
	createKey(t, d, newKey("k1"))
	for _, o := range []agent.OrgID{org, otherOrg} {
		again := newKey("k1")
		again.Org, again.User = o, "eve"
		if err := d.CreateKey(t.Context(), again, secretOf("other")); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second key k1 of %s: got %v, want ErrExists", o, err)
		}
	}
	same(t, "key", readKey(t, d, "k1"), newKey("k1"))
}

func keyList(t *testing.T, d *data) {
	var want, all []agent.KeyID
	for i := range 5 {
		k := newKey(agent.KeyID(fmt.Sprintf("k%d", i)))
		createKey(t, d, k)
		want = append(want, k.ID)
	}
	foreign := newKey("a1")
	foreign.Org = otherOrg
	createKey(t, d, foreign)
	all = append(append(all, want...), foreign.ID)
	for _, tt := range []struct {
		org  agent.OrgID
		want []agent.KeyID
	}{{org, want}, {otherOrg, []agent.KeyID{"a1"}}, {"initech", nil}, {"", all}} {
		for _, size := range []int{1, 2, 50} {
			rows, _ := collect(t, size, func(p store.Page) ([]agent.APIKey, string, error) { return d.Keys(t.Context(), tt.org, p) })
			var got []agent.KeyID
			for _, k := range rows {
				got = append(got, k.ID)
			}
			same(t, fmt.Sprintf("keys of %q in pages of %d", tt.org, size), got, tt.want)
		}
	}
	_, _, err := d.Keys(t.Context(), org, store.Page{Cursor: store.Cursor("sessions", "1", "k1")})
	wantKind(t, err, agent.KindInvalidRequest)
}

func revokeKey(t *testing.T, d *data) {
	ctx := t.Context()
	createKey(t, d, newKey("k1"))
	_, err := d.RevokeKey(ctx, otherOrg, "k1", at(1))
	wantKind(t, err, agent.KindNotFound)
	same(t, "key that another organisation revokes", readKey(t, d, "k1"), newKey("k1"))

	want := newKey("k1")
	want.RevokedAt = at(2).UTC()
	for _, minute := range []int{2, 3} {
		got, err := d.RevokeKey(ctx, org, "k1", at(minute))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "revoked key", got, want)
	}
	d.reopen(t)
	same(t, "revoked key", readKey(t, d, "k1"), want)
}

func touchKey(t *testing.T, d *data) {
	ctx := t.Context()
	createKey(t, d, newKey("k1"))
	want := newKey("k1")
	for _, use := range []struct {
		org    agent.OrgID
		minute int
		noted  bool
	}{{otherOrg, 1, false}, {org, 5, true}, {org, 3, false}, {org, 64, false}, {org, 65, true}} {
		if err := d.TouchKey(ctx, use.org, "k1", at(use.minute)); err != nil {
			t.Fatal(err)
		}
		if use.noted {
			want.LastUsedAt = at(use.minute).UTC()
		}
		same(t, fmt.Sprintf("key after minute %d", use.minute), readKey(t, d, "k1"), want)
	}
}

func anyKey(t *testing.T, d *data) {
	found := func() bool {
		t.Helper()
		found, err := d.AnyKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found() {
		t.Error("there are keys in a new store")
	}
	createKey(t, d, newKey("k1"))
	if _, err := d.RevokeKey(t.Context(), org, "k1", at(1)); err != nil {
		t.Fatal(err)
	}
	if !found() {
		t.Error("a revoked key is none")
	}
}
