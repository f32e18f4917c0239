package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/store"
)

// keyID is the one key that fakeKeys has.
const keyID = "0000000000000000"

// fakeKeys are the keys of a server on which every key is the same.
type fakeKeys struct{}

func (fakeKeys) Create(_ context.Context, by agent.Caller, n auth.NewKey) (agent.APIKey, string, error) {
	return agent.APIKey{ID: keyID, Org: n.Org, User: n.User, Role: agent.RoleUser, CreatedAt: noon, CreatedBy: by.User}, "aptix_x", nil
}

func (fakeKeys) List(_ context.Context, _ agent.Caller, p store.Page) ([]agent.APIKey, string, error) {
	_, err := p.After("keys", 2)
	return nil, "", err
}

func (fakeKeys) Revoke(_ context.Context, by agent.Caller, id agent.KeyID, _ bool) (agent.APIKey, error) {
	if id != keyID {
		return agent.APIKey{}, agent.Errorf(agent.KindNotFound, "There is no key %q.", id)
	}
	return agent.APIKey{ID: id, Org: by.Org, User: by.User, Role: agent.RoleUser, CreatedAt: noon, CreatedBy: by.User, RevokedAt: noon}, nil
}

func TestKeys_CreateListRevoke(t *testing.T) {
	w := newWhole(t)
	created := decoded[NewAPIKey](t, w.do(t, "POST", "/v1/keys", `{"org":"acme","user":"ada","role":"admin","name":"first","expiresAt":"2099-01-02T03:04:05+01:00"}`), http.StatusCreated)
	if created.Org != "acme" || created.Role != agent.RoleAdmin || created.ExpiresAt == nil || created.ExpiresAt.Hour() != 2 || created.CreatedBy != "local" {
		t.Errorf("got %+v", created)
	}
	ada := []string{"Authorization", "Bearer " + created.Key}
	w.do(t, "GET", "/v1/keys", "").want(t, agent.KindUnauthenticated) // it is on at once
	list := decoded[List[APIKey]](t, w.do(t, "GET", "/v1/keys", "", ada...), 200)
	if len(list.Data) != 1 || list.Data[0].KeyID != created.KeyID {
		t.Errorf("got %+v", list)
	}

	second := decoded[NewAPIKey](t, w.do(t, "POST", "/v1/keys", `{"user":"bob"}`, ada...), http.StatusCreated)
	if second.Org != "acme" || second.Role != agent.RoleUser {
		t.Errorf("got %+v", second)
	}
	w.do(t, "POST", "/v1/keys", `{"org":"globex","user":"bob"}`, ada...).want(t, agent.KindForbidden)
	w.do(t, "DELETE", "/v1/keys/"+string(second.KeyID), "", ada...).wantStatus(t, 200)
	w.do(t, "GET", "/v1/sessions", "", "Authorization", "Bearer "+second.Key).want(t, agent.KindUnauthenticated)
	w.do(t, "DELETE", "/v1/keys/"+keyID, "", ada...).want(t, agent.KindNotFound)
	w.do(t, "DELETE", "/v1/keys/"+string(created.KeyID)+"?force=maybe", "", ada...).want(t, agent.KindInvalidRequest)

	// Without it nobody could make another one.
	w.do(t, "DELETE", "/v1/keys/"+string(created.KeyID), "", ada...).want(t, agent.KindForbidden)
	w.do(t, "DELETE", "/v1/keys/"+string(created.KeyID)+"?force=true", "", ada...).wantStatus(t, 200)
	w.do(t, "GET", "/v1/keys", "", ada...).want(t, agent.KindUnauthenticated)
	w.do(t, "GET", "/v1/keys", "").want(t, agent.KindUnauthenticated) // and it stays on
}

func TestKeys_FirstMustBeAnAdmins(t *testing.T) {
	w := newWhole(t)
	w.do(t, "POST", "/v1/keys", `{"org":"acme","user":"ada"}`).want(t, agent.KindInvalidRequest)
	w.do(t, "GET", "/v1/sessions", "").wantStatus(t, 200)
}

func TestKeys_BadBodies(t *testing.T) {
	w := newWhole(t)
	for _, body := range []string{
		``, `{}`, `[]`, `{"user":""}`, `{"user":"a b"}`, `{"user":"ada","role":"root"}`, `{"user":"ada","role":"Admin"}`, `{"user":"ada","org":".."}`,
		`{"user":"ada","expiresAt":"tomorrow"}`, `{"user":"ada","expiresAt":1}`, `{"user":"ada","secret":"x"}`,
		`{"user":"ada","role":"admin","expiresAt":"2001-01-01T00:00:00Z"}`, `{"user":"ada","role":"admin","name":"\u001b[31m"}`,
	} {
		w.do(t, "POST", "/v1/keys", body).want(t, agent.KindInvalidRequest)
	}
	if found, err := w.store.AnyKey(t.Context()); found || err != nil {
		t.Errorf("there is a key now (%v)", err)
	}
}

// decoded reads an answer that has to have this status.
func decoded[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	a.wantStatus(t, status)
	return decode[T](t, a)
}
