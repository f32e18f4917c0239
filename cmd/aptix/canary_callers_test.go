package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestCanaries_Callers is a server and the credentials of those who call it: keys and tokens,
// good and bad ones, the console's token and its cookies, an issuer that fails in every way
// and repeats secrets in its answers, and webhooks.
// It holds row S-25 of docs/security.md.
func TestCanaries_Callers(t *testing.T) {
	c := newColony(t)
	issuer := newIssuer(c)
	told := c.listener()
	c.command(0, "mcp", "approve", "--yes")

	s := c.serve() // on which nobody authenticates
	s.browse("/?token=" + c.learned["console-token"])
	for _, guess := range []string{"/?token=" + c.canary["wrong-key"], "/sessions/s?token=" + c.canary["wrong-key"]} {
		s.as("", "GET", guess, "")
	}
	s.as("", "POST", "/sign-in", url.Values{"key": {c.canary["wrong-key"]}}.Encode())
	key := s.firstKey()
	good := "Bearer " + key
	s.tell(good, told)
	s.signIn(key)
	for _, bad := range []string{"Bearer " + key[:len(key)-1] + "x", "Bearer aptix_" + c.canary["wrong-key"], "Basic " + c.canary["wrong-key"], "Bearer  " + c.canary["wrong-key"], c.canary["wrong-key"]} {
		s.visit(bad)
	}
	s.visit(good)
	c.set("APTIX_API_KEY", key)
	c.set("APTIX_URL", s.url)
	c.doctor()
	for _, args := range [][]string{{"keys", "list"}, {"keys", "list", "--json"}, {"sessions", "list"}, {"audit"}, {"webhooks", "list"}, {"ask", "do:ok"}, {"keys", "revoke", "nokey"}} {
		c.command(-1, args...)
	}
	told.await()
	s.as(good, "DELETE", "/v1/keys/"+strings.Split(key, "_")[1]+"?force=true", "")
	s.visit(good) // revoked
	s.end(t, syscall.SIGINT)

	c.write("aptix.yaml", strings.Replace(read(t, filepath.Join(c.dir, "aptix.yaml")), "approvals:", issuer.settings()+"approvals:", 1))
	for _, kind := range issuerKinds {
		issuer.kind.Store(kind)
		s := c.serve()
		for _, token := range issuer.tokens() {
			s.visit("Bearer " + token)
		}
		c.command(-1, "doctor", "--probe")
		s.end(t, syscall.SIGINT)
	}

	c.lookFor(everywhere)
	for _, file := range c.dataFiles() {
		c.look("the data file "+filepath.Base(file), read(t, file), notStored)
	}
}

// as sends a request with a credential, or none, and notes the answer.
func (s *canaryServer) as(credential, method, path, body string, header ...string) *http.Response {
	s.c.t.Helper()
	res, answer := s.exchange(credential, method, path, body, header...)
	var head bytes.Buffer
	_ = res.Header.Write(&head)
	where, _, _ := strings.Cut(path, "?")
	s.c.note(method+" "+where, head.String()+answer)
	return res
}

// exchange sends a request as as does, and notes nothing.
func (s *canaryServer) exchange(credential, method, path, body string, header ...string) (*http.Response, string) {
	s.c.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.c.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if credential != "" {
		req.Header.Set("Authorization", credential)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: within, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		s.c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		s.c.t.Fatal(err)
	}
	return res, string(answer)
}

// visit goes to both doors, the console and the pages with a credential.
func (s *canaryServer) visit(credential string) {
	s.c.t.Helper()
	n := time.Now().UnixNano()
	s.as(credential, "POST", "/v1/agent/execute", fmt.Sprintf(`{"sessionId":"v%d","turnId":"t1","instruction":"do:ok"}`, n))
	s.as(credential, "POST", "/v1/responses", `{"model":"default","stream":true,"input":"do:ok"}`)
	for _, path := range []string{"/", "/live", "/v1/sessions", fmt.Sprintf("/v1/sessions/v%d/turns/t1/events", n), fmt.Sprintf("/v1/sessions/v%d/turns/t1/requests", n), "/v1/keys", "/v1/audit", "/v1/webhooks", "/v1/usage"} {
		s.as(credential, "GET", path, "")
	}
}

// browse opens an address that signs a browser in, and pages with its cookie.
func (s *canaryServer) browse(path string) {
	s.c.t.Helper()
	res, _ := s.exchange("", "GET", path, "")
	s.withCookie(res)
}

// signIn gives the console a key.
func (s *canaryServer) signIn(key string) {
	s.c.t.Helper()
	res, _ := s.exchange("", "POST", "/sign-in", url.Values{"key": {key}}.Encode())
	s.withCookie(res)
}

func (s *canaryServer) withCookie(res *http.Response) {
	s.c.t.Helper()
	cookies := res.Cookies()
	if len(cookies) != 1 {
		s.c.t.Fatalf("no cookie: %s %v", res.Status, res.Header)
	}
	s.c.learn("console-cookie", cookies[0].Value)
	pair := cookies[0].Name + "=" + cookies[0].Value
	for _, path := range []string{"/", "/modes", "/live", "/sessions/none", "/v1/sessions"} {
		s.as("", "GET", path, "", "Cookie", pair)
	}
	s.as("", "POST", "/v1/agent/execute", `{"sessionId":"console","instruction":"do:ok"}`, "Cookie", pair)
}

// firstKey makes the first key and returns it.
func (s *canaryServer) firstKey() string {
	s.c.t.Helper()
	cmd := s.c.cmd("keys", "create", "--url", s.url, "--org", "acme", "--user", "ann", "--role", "admin", "--name", "first")
	out, err := cmd.Output()
	if err != nil {
		s.c.t.Fatalf("make a key: %v", err)
	}
	key := strings.TrimSpace(string(out))
	m := regexp.MustCompile(`^aptix_[0-9a-v]+_([0-9a-z]+)$`).FindStringSubmatch(key)
	if m == nil {
		s.c.t.Fatalf("the key is %q", key)
	}
	s.c.learn("api-key", m[1])
	return key
}

// listener is a receiver of webhooks, which notes what it is sent and fails now and then.
type listener struct {
	*httptest.Server
	c    *colony
	came chan struct{}
}

func (c *colony) listener() *listener {
	l := &listener{c: c, came: make(chan struct{}, 100)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var head bytes.Buffer
		_ = r.Header.Write(&head)
		body, _ := io.ReadAll(r.Body)
		c.note("a webhook", head.String()+string(body))
		l.came <- struct{}{}
		http.Error(w, head.String(), http.StatusInternalServerError)
	}))
	c.t.Cleanup(l.Close)
	c.write("aptix.yaml", read(c.t, filepath.Join(c.dir, "aptix.yaml"))+"outbound: {allow: [127.0.0.0/8]}\n")
	return l
}

// await waits until something has come.
func (l *listener) await() {
	l.c.t.Helper()
	select {
	case <-l.came:
	case <-time.After(within):
		l.c.t.Fatal("no webhook was told anything")
	}
}

// tell makes a webhook, and has it told of a turn.
func (s *canaryServer) tell(credential string, l *listener) {
	s.c.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"events":["turn.completed"]}`, l.URL+"/hook")
	res, answer := s.exchange(credential, "POST", "/v1/webhooks", body)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || res.StatusCode != http.StatusCreated {
		s.c.t.Fatalf("make a webhook: %s %s", res.Status, answer)
	}
	s.c.learn("webhook", strings.TrimPrefix(made.Secret, "whsec_"))
	s.visit(credential)
}

// canaryIssuer is an OpenID issuer that answers well, and in ways that repeat a secret.
type canaryIssuer struct {
	*httptest.Server
	c    *colony
	kind atomic.Value
	key  *rsa.PrivateKey
}

var issuerKinds = []string{"good", "refuses", "another issuer", "junk", "sent elsewhere", "keys are junk", "keys elsewhere", "keys refused"}

func newIssuer(c *colony) *canaryIssuer {
	c.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		c.t.Fatal(err)
	}
	i := &canaryIssuer{c: c, key: key}
	i.Server = httptest.NewServer(i)
	c.t.Cleanup(i.Close)
	return i
}

func (i *canaryIssuer) settings() string {
	return fmt.Sprintf("auth: {oidc: {issuer: %q, audience: aptix, orgClaim: org}}\n", i.URL)
}

func (i *canaryIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secret := i.c.canary["issuer"]
	metadata := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "note": secret}
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}}
	kind, _ := i.kind.Load().(string)
	if r.URL.Path == "/keys" {
		switch kind {
		case "keys are junk":
			_, _ = io.WriteString(w, secret)
		case "keys refused":
			http.Error(w, secret, http.StatusForbidden)
		default:
			_ = json.NewEncoder(w).Encode(keys)
		}
		return
	}
	switch kind {
	case "refuses":
		w.Header().Set("WWW-Authenticate", secret)
		http.Error(w, secret, http.StatusUnauthorized)
	case "another issuer":
		metadata["issuer"] = "https://other.example" // which the operator has to know
	case "junk":
		_, _ = io.WriteString(w, `{"issuer": `+secret)
	case "sent elsewhere":
		http.Redirect(w, r, "http://user:"+secret+"@127.0.0.1:1/", http.StatusFound)
	case "keys elsewhere":
		metadata["jwks_uri"] = "http://user:" + secret + "@127.0.0.1:1/?key=" + secret
	}
	_ = json.NewEncoder(w).Encode(metadata)
}

// tokens are a good one and bad ones, with a secret in each.
func (i *canaryIssuer) tokens() []string {
	note := i.c.canary["token"]
	sign := func(key any, alg jose.SignatureAlgorithm, pairs ...any) string {
		claims := map[string]any{"iss": i.URL, "aud": "aptix", "sub": "ann", "org": "acme", "exp": time.Now().Add(time.Hour).Unix(), "note": note}
		for n := 0; n+1 < len(pairs); n += 2 {
			claims[pairs[n].(string)] = pairs[n+1]
		}
		body, err := json.Marshal(claims)
		if err != nil {
			i.c.t.Fatal(err)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
		if err != nil {
			i.c.t.Fatal(err)
		}
		signed, err := signer.Sign(body)
		if err != nil {
			i.c.t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			i.c.t.Fatal(err)
		}
		return text
	}
	good := sign(i.key, jose.RS256)
	return []string{good, good[:len(good)-10], sign(i.key, jose.RS256, "aud", "another"), sign(i.key, jose.RS256, "exp", 1), sign(i.key, jose.RS256, "org", 7),
		sign(i.key, jose.RS256, "exp", note), sign([]byte(note+note), jose.HS256), strings.Replace(good, ".", "."+base64Of(note), 1), note, "a." + note + ".b"}
}
