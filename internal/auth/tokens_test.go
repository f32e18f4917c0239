package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/aptixhq/aptix/internal/agent"
)

// issuer is an OpenID issuer on this machine.
type issuer struct {
	*httptest.Server
	fetched atomic.Int64 // how often its keys were

	mu   sync.Mutex
	keys map[string]*rsa.PrivateKey // by kid; guarded by mu
	down bool                       // guarded by mu
	pad  int                        // bytes that its answers are too long by; guarded by mu
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]*rsa.PrivateKey{"k1": newRSA(t)}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		var set jose.JSONWebKeySet
		i.mu.Lock()
		for kid, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid, Algorithm: "RS256", Use: "sig"})
		}
		i.mu.Unlock()
		i.answer(w, set)
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, v any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(bytes.Repeat([]byte(" "), i.pad))
	_ = json.NewEncoder(w).Encode(v)
}

func (i *issuer) set(change func(*issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// claims are those of a token for ann of acme, changed by pairs of name and value; a nil
// takes one out.
func (i *issuer) claims(now time.Time, pairs ...any) map[string]any {
	c := map[string]any{"iss": i.URL, "aud": "aptix", "sub": "ann", "org": "acme",
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix()}
	for n := 0; n < len(pairs); n += 2 {
		c[pairs[n].(string)] = pairs[n+1]
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// compact writes a token with any header and a signature of sign.
func compact(t *testing.T, header, claims map[string]any, sign func(input []byte) []byte) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	input := part(header) + "." + part(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(input)))
}

func rs256(t *testing.T, key *rsa.PrivateKey) func([]byte) []byte {
	return func(input []byte) []byte {
		sum := sha256.Sum256(input)
		b, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func (i *issuer) token(t *testing.T, now time.Time, pairs ...any) string {
	t.Helper()
	return compact(t, map[string]any{"alg": "RS256", "kid": "k1", "typ": "JWT"}, i.claims(now, pairs...), rs256(t, i.keys["k1"]))
}

func newTokens(t *testing.T, i *issuer, c *clock) *Tokens {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return NewTokens(TokensConfig{
		Issuer: i.URL, Audience: "aptix", Algorithms: []string{"RS256"}, OrgClaim: "org", UserClaim: "sub", RoleClaim: "groups",
		Roles:  map[string]agent.Role{"aptix-admins": agent.RoleAdmin, "aptix-ops": agent.RoleOperator},
		Client: client, Log: slog.New(slog.DiscardHandler), Now: c.Now,
	})
}

func TestTokens_SayWhoTheCallerIs(t *testing.T) {
	i, c := newIssuer(t), &clock{now: time.Now()}
	tokens := newTokens(t, i, c)
	for name, tt := range map[string]struct {
		pairs []any
		role  agent.Role
	}{
		"no role":          {nil, agent.RoleUser},
		"unmapped":         {[]any{"groups", "admin"}, agent.RoleUser},
		"mapped":           {[]any{"groups", "aptix-ops"}, agent.RoleOperator},
		"the highest":      {[]any{"groups", []string{"x", "aptix-ops", "aptix-admins"}}, agent.RoleAdmin},
		"no role at all":   {[]any{"groups", 7}, agent.RoleUser},
		"another claim":    {[]any{"role", "admin", "roles", []string{"aptix-admins"}, "scope", "admin"}, agent.RoleUser},
		"two audiences":    {[]any{"aud", []string{"other", "aptix"}}, agent.RoleUser},
		"a fast clock":     {[]any{"iat", c.now.Add(55 * time.Second).Unix(), "nbf", c.now.Add(55 * time.Second).Unix()}, agent.RoleUser},
		"a slow clock":     {[]any{"exp", c.now.Add(-55 * time.Second).Unix()}, agent.RoleUser},
		"fractional times": {[]any{"exp", float64(c.now.Unix()) + 60.5}, agent.RoleUser},
	} {
		who, err := tokens.Check(t.Context(), i.token(t, c.now, tt.pairs...))
		if want := (agent.Caller{Org: "acme", User: "ann", Role: tt.role}); err != nil || who != want {
			t.Errorf("%s: got %+v, %v; want %+v", name, who, err, want)
		}
	}
}

// S-11: a token that is not exactly what it should be is refused.
func TestTokens_Refused(t *testing.T) {
	i, c := newIssuer(t), &clock{now: time.Now()}
	tokens := newTokens(t, i, c)
	stranger := newRSA(t)
	public, err := x509.MarshalPKIXPublicKey(i.keys["k1"].Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	hs256 := func(secret []byte) func([]byte) []byte {
		return func(input []byte) []byte {
			m := hmac.New(sha256.New, secret)
			m.Write(input)
			return m.Sum(nil)
		}
	}
	unsigned := func([]byte) []byte { return nil }
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	es256 := func(input []byte) []byte {
		sum := sha256.Sum256(input)
		r, s, err := ecdsa.Sign(rand.Reader, curve, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	own := rs256(t, i.keys["k1"])
	header := func(pairs ...any) map[string]any {
		h := map[string]any{"alg": "RS256", "kid": "k1"}
		for n := 0; n < len(pairs); n += 2 {
			h[pairs[n].(string)] = pairs[n+1]
		}
		return h
	}
	good := i.claims(c.now)
	jwk := map[string]any{}
	raw, err := jose.JSONWebKey{Key: stranger.Public(), KeyID: "k1"}.MarshalJSON()
	if err != nil || json.Unmarshal(raw, &jwk) != nil {
		t.Fatal(err)
	}
	whole := compact(t, header(), good, own)
	parts := strings.Split(whole, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(mustJSON(t, good), `"acme"`, `"globex"`, 1)))

	for name, token := range map[string]string{
		"wrong audience":         i.token(t, c.now, "aud", "another"),
		"no audience":            i.token(t, c.now, "aud", nil),
		"audience as a part":     i.token(t, c.now, "aud", "aptix-other"),
		"wrong issuer":           i.token(t, c.now, "iss", "https://evil.example"),
		"issuer with a slash":    i.token(t, c.now, "iss", i.URL+"/"),
		"no issuer":              i.token(t, c.now, "iss", nil),
		"alg none":               compact(t, header("alg", "none"), good, unsigned),
		"alg None":               compact(t, header("alg", "None"), good, unsigned),
		"alg none, signed":       compact(t, header("alg", "none"), good, own),
		"no alg":                 compact(t, map[string]any{"kid": "k1"}, good, own),
		"HS256, public key PEM":  compact(t, header("alg", "HS256"), good, hs256(publicPEM)),
		"HS256, public key DER":  compact(t, header("alg", "HS256"), good, hs256(public)),
		"HS256, empty secret":    compact(t, header("alg", "HS256"), good, hs256(nil)),
		"ES256, not configured":  compact(t, header("alg", "ES256"), good, es256),
		"another's key":          compact(t, header(), good, rs256(t, stranger)),
		"unknown kid":            compact(t, header("kid", "k9"), good, rs256(t, stranger)),
		"kid as a path":          compact(t, header("kid", "../../../../dev/null"), good, hs256(nil)),
		"kid as SQL":             compact(t, header("kid", "k1' OR '1'='1"), good, rs256(t, stranger)),
		"kid of another type":    compact(t, header("kid", 1), good, own),
		"no kid, another's key":  compact(t, map[string]any{"alg": "RS256"}, good, rs256(t, stranger)),
		"key in the header":      compact(t, header("jwk", jwk), good, rs256(t, stranger)),
		"key elsewhere":          compact(t, header("jku", "https://evil.example/keys"), good, rs256(t, stranger)),
		"certificate elsewhere":  compact(t, header("x5u", "https://evil.example/cert"), good, rs256(t, stranger)),
		"unknown crit":           compact(t, header("crit", []string{"exp2"}, "exp2", 1), good, own),
		"expired":                i.token(t, c.now, "exp", c.now.Add(-61*time.Second).Unix()),
		"without an end":         i.token(t, c.now, "exp", nil),
		"end is no time":         i.token(t, c.now, "exp", "never"),
		"end far off":            i.token(t, c.now, "exp", 1e300),
		"not yet valid":          i.token(t, c.now, "nbf", c.now.Add(62*time.Second).Unix()),
		"issued in the future":   i.token(t, c.now, "iat", c.now.Add(62*time.Second).Unix()),
		"no organisation":        i.token(t, c.now, "org", nil),
		"organisation is no id":  i.token(t, c.now, "org", "acme/../globex"),
		"organisation is empty":  i.token(t, c.now, "org", ""),
		"organisations":          i.token(t, c.now, "org", []string{"acme"}),
		"no user":                i.token(t, c.now, "sub", nil),
		"user is no id":          i.token(t, c.now, "sub", "ann\n"),
		"changed":                parts[0] + "." + forged + "." + parts[2],
		"signature cut off":      parts[0] + "." + parts[1] + ".",
		"signature missing":      parts[0] + "." + parts[1],
		"two tokens":             whole + "." + whole,
		"with blanks":            whole + " ",
		"signature padded":       whole + "=",
		"nothing":                "",
		"dots":                   "..",
		"a key without keys":     "aptix.x.y",
		"encrypted, five parts":  whole + ".a.b",
		"general serialisation":  `{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
		"flattened":              `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"long beyond reason":     strings.Repeat("a", 1<<20),
		"claims that are a list": compactRaw(t, header(), `[]`, own),
	} {
		who, err := tokens.Check(t.Context(), token)
		if err == nil || agent.KindOf(err) != agent.KindUnauthenticated || who != (agent.Caller{}) {
			t.Errorf("%s: got %+v, %v", name, who, err)
		}
	}
	if _, err := tokens.Check(t.Context(), whole); err != nil {
		t.Errorf("the good token: %v", err)
	}
	// Nobody makes the issuer be asked without end.
	if got := i.fetched.Load(); got > fetchBurst {
		t.Errorf("its keys were fetched %d times", got)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func compactRaw(t *testing.T, header map[string]any, payload string, sign func([]byte) []byte) string {
	t.Helper()
	input := base64.RawURLEncoding.EncodeToString([]byte(mustJSON(t, header))) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	return input + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(input)))
}

// TestTokens_KeysRotate holds row S-11 of docs/security.md.
func TestTokens_KeysRotate(t *testing.T) {
	i, c := newIssuer(t), &clock{now: time.Now()}
	tokens := newTokens(t, i, c)
	old := i.token(t, c.now)
	if _, err := tokens.Check(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	second := newRSA(t)
	i.set(func(i *issuer) { i.keys = map[string]*rsa.PrivateKey{"k1": i.keys["k1"], "k2": second} })
	rotated := compact(t, map[string]any{"alg": "RS256", "kid": "k2"}, i.claims(c.now), rs256(t, second))
	if _, err := tokens.Check(t.Context(), rotated); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	if _, err := tokens.Check(t.Context(), old); err != nil {
		t.Errorf("a token of the old key: %v", err)
	}
	// A key that the issuer takes back is forgotten.
	first := i.keys["k1"]
	i.set(func(i *issuer) { i.keys = map[string]*rsa.PrivateKey{"k2": second} })
	c.pass(metadataAge)
	late := compact(t, map[string]any{"alg": "RS256", "kid": "k1"}, i.claims(c.Now()), rs256(t, first))
	_, err := tokens.Check(t.Context(), late)
	wantKind(t, err, agent.KindUnauthenticated)
}

func TestTokens_IssuerIsAway(t *testing.T) {
	for name, breakIt := range map[string]func(*issuer){
		"down":               func(i *issuer) { i.down = true },
		"answers in excess":  func(i *issuer) { i.pad = 2 << 20 },
		"is not who it says": func(i *issuer) { i.Config.Handler = http.NotFoundHandler() },
	} {
		t.Run(name, func(t *testing.T) {
			i, c := newIssuer(t), &clock{now: time.Now()}
			handler := i.Config.Handler
			i.set(breakIt)
			tokens := newTokens(t, i, c)
			_, err := tokens.Check(t.Context(), i.token(t, c.now))
			wantKind(t, err, agent.KindUnavailable)
			if agent.FaultOf(err).RetryAfter <= 0 {
				t.Error("nobody is told when to come again")
			}
			i.set(func(i *issuer) { i.down, i.pad, i.Config.Handler = false, 0, handler })
			c.pass(fetchEvery)
			if _, err := tokens.Check(t.Context(), i.token(t, c.now)); err != nil {
				t.Errorf("when it is back: %v", err)
			}
			// Later outages are survived for a while, with the keys that are known.
			i.set(breakIt)
			c.pass(metadataAge)
			if _, err := tokens.Check(t.Context(), i.token(t, c.Now())); err != nil {
				t.Errorf("with keys that are known: %v", err)
			}
			c.pass(metadataMost)
			_, err = tokens.Check(t.Context(), i.token(t, c.Now()))
			wantKind(t, err, agent.KindUnavailable)
		})
	}
}

// S-12: what a request says of itself beside its credential means nothing, and two
// credentials are none.
func TestAuthenticator_OnlyTheCredentialCounts(t *testing.T) {
	i, k := newIssuer(t), openKeys(t)
	tokens := newTokens(t, i, k.clock)
	a, err := New(k.Keyring, tokens)
	if err != nil {
		t.Fatal(err)
	}
	_, key := k.make(t, NewKey{Org: "acme", User: "ada", Role: agent.RoleAdmin})
	ask := func(header http.Header) (agent.Caller, error) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/sessions?org=globex&user=eve&role=admin", strings.NewReader(`{"org":"globex"}`))
		r.Header = header
		for name, value := range map[string]string{
			"X-Org": "globex", "X-User": "eve", "X-Role": "admin", "X-Aptix-Org": "globex", "X-Forwarded-User": "eve",
			"X-Scopes": "admin", "Cookie": "role=admin; key=" + key, "Proxy-Authorization": "Bearer " + key, "X-Api-Key": key,
		} {
			r.Header.Set(name, value)
		}
		return a.Authenticate(r)
	}
	who, err := ask(http.Header{"Authorization": {"Bearer " + i.token(t, k.clock.Now(), "role", "admin")}})
	if err != nil || who != (agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}) {
		t.Errorf("got %+v, %v", who, err)
	}
	if who, err := ask(http.Header{"Authorization": {"bearer " + key}}); err != nil || who.User != "ada" {
		t.Errorf("got %+v, %v", who, err)
	}
	for name, h := range map[string]http.Header{
		"none":            {},
		"two":             {"Authorization": {"Bearer " + key, "Bearer " + key}},
		"another scheme":  {"Authorization": {"Basic " + key}},
		"no scheme":       {"Authorization": {key}},
		"an empty one":    {"Authorization": {"Bearer "}},
		"a very long one": {"Authorization": {"Bearer " + strings.Repeat("a", maxCredential+1)}},
		"a blank more":    {"Authorization": {"Bearer  " + key}},
	} {
		who, err := ask(h)
		if who != (agent.Caller{}) {
			t.Errorf("%s: it is %+v", name, who)
		}
		wantKind(t, err, agent.KindUnauthenticated)
	}
}

// S-14: a good credential works from an address that others guess from.
func TestAuthenticator_GoodKeyWorksBesideGuesses(t *testing.T) {
	k := openKeys(t)
	a, err := New(k.Keyring, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, key := k.make(t, admin)
	ask := func(credential string) error {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/sessions", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+credential)
		_, err := a.Authenticate(r)
		return err
	}
	held := 0
	for range 100 {
		_, guess := mint(time.Now())
		switch err := ask(guess); agent.KindOf(err) {
		case agent.KindRateLimited:
			held++
		case agent.KindUnauthenticated:
		default:
			t.Fatalf("a guess: %v", err)
		}
		if err := ask(key); err != nil {
			t.Fatalf("the good key: %v", err)
		}
	}
	if held < 100-failureBurst-5 {
		t.Errorf("of 100 guesses %d were held up", held)
	}
}
