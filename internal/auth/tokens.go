package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"github.com/aptixhq/aptix/internal/agent"
)

const (
	// skew is how far the clock of an issuer may be from ours.
	skew = time.Minute
	// metadataAge is how long an issuer's metadata and keys are used before they are read
	// again, so that a key which it has withdrawn is forgotten. While it does not answer the
	// old ones are good for as long as metadataMost.
	metadataAge  = 10 * time.Minute
	metadataMost = time.Hour
	// fetchTime bounds one question to the issuer, maxDocument its answer in bytes.
	fetchTime   = 10 * time.Second
	maxDocument = 1 << 20
	// Tokens that name unknown keys have the issuer asked again, no more often than this.
	fetchBurst = 5
	fetchEvery = 5 * time.Second
	// retryIssuer is when a client may come again whose token could not be checked.
	retryIssuer = 5 * time.Second
)

// TokensConfig says which tokens are taken, and what they mean.
type TokensConfig struct {
	// Issuer is the URL that names the issuer, Audience the one whom tokens must be meant
	// for, and Algorithms those by which they may be signed.
	Issuer     string
	Audience   string
	Algorithms []string
	// OrgClaim, UserClaim and RoleClaim are the claims that say who the caller is. RoleClaim
	// may be empty. Roles translates its values; all others mean agent.RoleUser.
	OrgClaim  string
	UserClaim string
	RoleClaim string
	Roles     map[string]agent.Role
	// Client fetches the issuer's metadata and keys. Its connections are its own affair;
	// what it brings is bounded here.
	Client *http.Client
	Log    *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Tokens knows the tokens of one issuer. It asks the issuer when the first token comes and
// not before, so that a server starts without it.
type Tokens struct {
	TokensConfig
	fetch *http.Client

	mu       sync.Mutex // guards what follows, also while the issuer is asked
	keys     oidc.KeySet
	learned  time.Time // when keys came
	tried    time.Time // when they were last asked for
	tryError error
}

// NewTokens returns the tokens of an issuer.
func NewTokens(c TokensConfig) *Tokens {
	if c.Now == nil {
		c.Now = time.Now
	}
	fetch := *c.Client
	fetch.Timeout = fetchTime
	fetch.Transport = &frugal{base: fetch.Transport, limit: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst)}
	return &Tokens{TokensConfig: c, fetch: &fetch}
}

// errBadToken is what the client gets of a token that is refused; why is for the log.
func errBadToken(why error) error {
	return agent.Errorf(agent.KindUnauthenticated, "The token is not valid here, or has expired. Get a new one from the issuer.").Because(why)
}

func errIssuer(why error) error {
	e := agent.Errorf(agent.KindUnavailable, "The issuer of tokens is out of reach, so this one cannot be checked. Send the same request again shortly.").Because(why)
	e.RetryAfter = retryIssuer
	return e
}

// compactForm is the one form of a token that is taken. The others have headers that
// nobody signed.
var compactForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// Check names the caller of a token. It is agent.KindUnauthenticated when the token is not
// good, and agent.KindUnavailable when the issuer has to be asked and does not answer.
func (t *Tokens) Check(ctx context.Context, token string) (agent.Caller, error) {
	if !compactForm.MatchString(token) {
		return agent.Caller{}, errBadToken(errors.New("it is no signed token"))
	}
	keys, err := t.keySet(ctx)
	if err != nil {
		return agent.Caller{}, errIssuer(err)
	}
	signed := &signature{keys: keys}
	verified, err := oidc.NewVerifier(t.Issuer, signed, &oidc.Config{
		ClientID: t.Audience, SupportedSigningAlgs: t.Algorithms,
		SkipExpiryCheck: true, // times are looked at below, with a narrower margin
	}).Verify(ctx, token)
	if signed.unreachable != nil {
		return agent.Caller{}, errIssuer(signed.unreachable)
	}
	if err != nil {
		return agent.Caller{}, errBadToken(unquoted(err))
	}
	who, err := t.caller(verified)
	if err != nil {
		return agent.Caller{}, errBadToken(err)
	}
	return who, nil
}

// unquoted is why a token is refused, without what could not be read of it: the decoder
// repeats that.
func unquoted(err error) error {
	if strings.Contains(err.Error(), "unmarshal") {
		return errors.New("its claims cannot be read")
	}
	return err
}

// caller reads who the caller is from a token whose signature, issuer and audience are
// right.
func (t *Tokens) caller(token *oidc.IDToken) (agent.Caller, error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return agent.Caller{}, fmt.Errorf("read the claims: %w", err)
	}
	if err := inTime(claims, t.Now()); err != nil {
		return agent.Caller{}, err
	}
	org, err := nameIn(claims, t.OrgClaim)
	if err != nil {
		return agent.Caller{}, err
	}
	user, err := nameIn(claims, t.UserClaim)
	if err != nil {
		return agent.Caller{}, err
	}
	return agent.Caller{Org: agent.OrgID(org), User: agent.UserID(user), Role: t.role(claims)}, nil
}

// inTime holds the times of a token against the clock. A token without an end has none.
func inTime(claims map[string]json.RawMessage, now time.Time) error {
	at := func(name string) (time.Time, bool, error) {
		raw, ok := claims[name]
		if !ok {
			return time.Time{}, false, nil
		}
		var seconds float64
		if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 || seconds > 1e11 {
			return time.Time{}, false, fmt.Errorf("claim %s is no time", name)
		}
		return time.Unix(int64(seconds), 0), true, nil
	}
	exp, ok, err := at("exp")
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("claim exp is missing")
	case !now.Add(-skew).Before(exp):
		return fmt.Errorf("the token expired at %s", exp.UTC().Format(time.RFC3339))
	}
	for _, name := range []string{"nbf", "iat"} {
		from, ok, err := at(name)
		if err != nil {
			return err
		}
		if ok && from.After(now.Add(skew)) {
			return fmt.Errorf("claim %s is in the future: %s", name, from.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// nameIn returns a claim that has to be there and to be an id.
func nameIn(claims map[string]json.RawMessage, claim string) (string, error) {
	var name string
	if err := json.Unmarshal(claims[claim], &name); err != nil || !agent.ValidID(name) {
		return "", fmt.Errorf("claim %s is missing, or is not 1 to 128 characters of A-Z a-z 0-9 _ . -", claim)
	}
	return name, nil
}

// role returns the highest role that the claim's values mean; it may be one text or
// several.
func (t *Tokens) role(claims map[string]json.RawMessage) agent.Role {
	best := agent.RoleUser
	var one string
	var several []string
	if json.Unmarshal(claims[t.RoleClaim], &one) == nil {
		several = []string{one}
	} else if json.Unmarshal(claims[t.RoleClaim], &several) != nil {
		return best
	}
	for _, value := range several {
		if role := t.Roles[value]; role.Includes(best) {
			best = role
		}
	}
	return best
}

// keySet returns the issuer's keys, and asks it for them when they are missing or old.
func (t *Tokens) keySet(ctx context.Context) (oidc.KeySet, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	age := now.Sub(t.learned)
	if t.keys != nil && age < metadataAge {
		return t.keys, nil
	}
	if now.Sub(t.tried) >= fetchEvery {
		t.tried = now
		if t.tryError = withoutAddress(t.learn(ctx)); t.tryError != nil {
			t.Log.WarnContext(ctx, "the issuer of tokens does not answer", "issuer", t.Issuer, "error", t.tryError)
		}
	}
	if t.keys != nil && (t.tryError == nil || age < metadataMost) {
		return t.keys, nil
	}
	return nil, t.tryError
}

// Reach asks the issuer for its metadata and returns why it does not give them.
func (t *Tokens) Reach(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return withoutAddress(t.learn(ctx))
}

// learn reads the issuer's metadata. The keys are read with the first token.
func (t *Tokens) learn(ctx context.Context) error {
	// The answer is for all who wait, whoever has asked.
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), t.fetch), fetchTime)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, t.Issuer)
	if err != nil {
		return err
	}
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil || metadata.Keys == "" {
		return fmt.Errorf("the metadata names no keys: %w", err)
	}
	t.keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), t.fetch), metadata.Keys)
	t.learned = t.Now()
	return nil
}

// signature checks one token's signature, and remembers when that failed for want of keys.
type signature struct {
	keys        oidc.KeySet
	unreachable error
}

// VerifySignature returns what was signed.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	payload, err := s.keys.VerifySignature(ctx, token)
	fetching := (*url.Error)(nil)
	// Who was just asked and did not know the key does not know it now.
	if errors.As(err, &fetching) && !errors.Is(err, errAskedOften) || errors.Is(err, context.DeadlineExceeded) {
		s.unreachable = withoutAddress(err)
	}
	return payload, withoutAddress(err)
}

// withoutAddress leaves of the address of a failed request its host: an issuer names the
// addresses that are asked, and what else stands in them may not be for the log.
func withoutAddress(err error) error {
	fetching := (*url.Error)(nil)
	if !errors.As(err, &fetching) {
		return err
	}
	host := "the issuer"
	if u, err := url.Parse(fetching.URL); err == nil {
		host = u.Host
	}
	return fmt.Errorf("%s %s: %w", fetching.Op, host, fetching.Err)
}

var errAskedOften = errors.New("the issuer was asked a moment ago")

// frugal keeps what an issuer can be asked, and what it can answer, within bounds.
type frugal struct {
	base  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip fetches a document of the issuer's.
func (f *frugal) RoundTrip(r *http.Request) (*http.Response, error) {
	if !f.limit.Allow() {
		return nil, errAskedOften
	}
	res, err := f.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s answers %s", r.URL.Host, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if !json.Valid(body) { // whoever decodes it would repeat it
		return nil, fmt.Errorf("what %s answers is no JSON, or more than %d bytes of it", r.URL.Host, maxDocument)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}
