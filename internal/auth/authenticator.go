package auth

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/aptixhq/aptix/internal/agent"
)

// maxCredential bounds a credential, in bytes.
const maxCredential = 16 << 10

// Authenticator names the callers of requests. It is what the server asks.
type Authenticator struct {
	keys     *Keyring
	tokens   *Tokens // nil without an issuer
	failures *Failures
}

// New returns an authenticator of keys and, when tokens is not nil, of tokens.
func New(keys *Keyring, tokens *Tokens) (*Authenticator, error) {
	f, err := NewFailures(time.Now)
	return &Authenticator{keys: keys, tokens: tokens, failures: f}, err
}

// Authenticate names the caller by the request's credential: agent.Local while
// authentication is off. A missing or a wrong credential is agent.KindUnauthenticated, one
// too many wrong ones of an address agent.KindRateLimited, and one that nobody can check
// now agent.KindUnavailable. A good credential is never refused for what others did.
func (a *Authenticator) Authenticate(r *http.Request) (agent.Caller, error) {
	on, err := a.keys.Look(r.Context())
	if err != nil {
		return agent.Caller{}, err
	}
	if !on {
		return agent.Local(), nil
	}
	credential, err := bearer(r)
	if err != nil {
		return agent.Caller{}, err
	}
	who, err := a.check(r.Context(), credential)
	if agent.KindOf(err) == agent.KindUnauthenticated {
		return agent.Caller{}, a.failures.Count(r.RemoteAddr, err)
	}
	return who, err
}

func (a *Authenticator) check(ctx context.Context, credential string) (agent.Caller, error) {
	if strings.HasPrefix(credential, Prefix) || a.tokens == nil {
		return a.keys.Check(ctx, credential)
	}
	return a.tokens.Check(ctx, credential)
}

// bearer returns the credential of a request. Two of them are none: a proxy and we might
// disagree about which one counts.
func bearer(r *http.Request) (string, error) {
	all := r.Header.Values("Authorization")
	missing := agent.Errorf(agent.KindUnauthenticated, "Send an API key or a token as Authorization: Bearer.")
	if len(all) != 1 {
		return "", missing
	}
	scheme, credential, ok := strings.Cut(all[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || credential == "" || len(credential) > maxCredential {
		return "", missing
	}
	return credential, nil
}

// isPrintable reports whether a text holds nothing that a terminal would act on.
func isPrintable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0
}
