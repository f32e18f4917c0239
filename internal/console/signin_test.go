package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/server"
)

// oneKey lets in whoever has the key, until it is revoked.
type oneKey struct{ revoked bool }

func (k *oneKey) Authenticate(r *http.Request) (agent.Caller, error) {
	if r.Header.Get("Authorization") != "Bearer good" || k.revoked {
		return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "Send a key.").Because(errors.New("no such key"))
	}
	return agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}, nil
}

func withCookie(value string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	if value != "" {
		r.AddCookie(&http.Cookie{Name: cookiePrefix, Value: value})
	}
	return r
}

func newSignIns(t *testing.T, next server.Authenticator) *SignIns {
	t.Helper()
	s, err := NewSignIns(next, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignIns(t *testing.T) {
	keys, now := &oneKey{}, time.Now()
	s := newSignIns(t, keys)
	s.now = func() time.Time { return now }
	token := s.admit("good")
	in := func(r *http.Request) bool { _, err := s.Authenticate(r); return err == nil }

	if r := withCookie(token); !in(r) || r.Header.Get("Authorization") != "" {
		t.Error("a sign-in is not taken, or the caller's request was changed")
	}
	for _, other := range []string{"", "good", token + "x", token[:len(token)-1]} {
		if in(withCookie(other)) {
			t.Errorf("cookie %q is taken", other)
		}
	}
	// A credential that is sent is the one that counts.
	r := withCookie(token)
	r.Header.Set("Authorization", "Bearer bad")
	if in(r) {
		t.Error("the cookie stood in for a bad key")
	}
	keys.revoked = true
	if in(withCookie(token)) {
		t.Error("a revoked key is taken")
	}
	keys.revoked = false
	now = now.Add(signInTime)
	if in(withCookie(token)) {
		t.Error("a sign-in has no end")
	}
	token = s.admit("good")
	s.close(withCookie(token))
	if in(withCookie(token)) {
		t.Error("a sign-in that was ended is taken")
	}
}

func TestSignIns_AreBounded(t *testing.T) {
	s := newSignIns(t, &oneKey{})
	first := s.admit("good")
	for range maxSignIns + 10 {
		s.close(withCookie(s.admit("good")))
	}
	if len(s.keys) > 1 || len(s.order) > maxSignIns {
		t.Errorf("%d sign-ins and %d places are kept", len(s.keys), len(s.order))
	}
	last := s.admit("good")
	for range maxSignIns {
		s.admit("good")
	}
	if len(s.keys) > maxSignIns || len(s.order) > maxSignIns || s.has(withCookie(first)) || s.has(withCookie(last)) {
		t.Errorf("%d sign-ins are kept, and the oldest of them", len(s.keys))
	}
}

func TestLocal(t *testing.T) {
	for next, want := range map[string]string{
		"/sessions/s1": "/sessions/s1", "/": "/", "": "/", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "/a\nb": "/", "javascript:x": "/",
	} {
		if got := local(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestSignInCookie(t *testing.T) {
	r := httptest.NewRequest("GET", "https://aptix.example/", nil)
	if c := cookie(r, "x", 1); !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
		t.Errorf("got %v", c)
	}
	if cookie(httptest.NewRequest("GET", "http://127.0.0.1/", nil), "x", 1).Secure {
		t.Error("without TLS the cookie would never come back")
	}
	if one, other := cookie(httptest.NewRequest("GET", "http://127.0.0.1:1/", nil), "x", 1), cookie(httptest.NewRequest("GET", "http://127.0.0.1:2/", nil), "x", 1); one.Name == other.Name {
		t.Errorf("two servers of one machine share the cookie %s", one.Name)
	}
}
