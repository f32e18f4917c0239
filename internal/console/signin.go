package console

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/server"
)

const (
	// cookiePrefix begins the name of the cookie.
	cookiePrefix = "aptix_console"
	// signInTime is how long a sign-in holds; the key may end earlier.
	signInTime = 12 * time.Hour
	// maxSignIns bounds how many are held at a time. One more pushes the oldest out.
	maxSignIns = 10_000
	// maxSignInForm bounds the body of the form, in bytes.
	maxSignInForm = 16 << 10
)

// SignIns is an Authenticator for browsers in front of the one for programs. A browser
// shows an API key once and has a cookie from then on, which names the key and is not made
// of it. With each request the key is put before the other Authenticator anew, so that one
// which is revoked is out at once, whoever is signed in with it. While nobody has to
// authenticate, a browser shows the Token instead. Sign-ins are held in memory: a server
// that is started anew asks again.
type SignIns struct {
	next    server.Authenticator
	asks    func() bool // for the token
	token   secret.Text
	guesses *auth.Failures // of the token; next counts those of keys
	now     func() time.Time

	mu sync.Mutex // guards the following
	// keys are by the cookie's value; order has them by age.
	keys  map[string]signedIn
	order []string
}

type signedIn struct {
	key   string // empty of a browser that showed the token
	until time.Time
}

// NewSignIns returns an Authenticator that knows nobody yet. While asks reports it, which is
// when nobody has to authenticate, pages are for browsers that showed the Token; nil is never.
func NewSignIns(next server.Authenticator, asks func() bool) (*SignIns, error) {
	guesses, err := auth.NewFailures(time.Now)
	return &SignIns{next: next, asks: asks, token: secret.New(rand.Text()), guesses: guesses, now: time.Now, keys: map[string]signedIn{}}, err
}

// Authenticate names the caller by the request's credential, or by its cookie when there is
// none.
func (s *SignIns) Authenticate(r *http.Request) (agent.Caller, error) {
	if r.Header.Get("Authorization") == "" {
		if key, ok := s.key(r); ok {
			r = withKey(r, key)
		}
	}
	return s.next.Authenticate(r)
}

// withKey returns the request as a program would send it.
func withKey(r *http.Request, key string) *http.Request {
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+key)
	return out
}

// lookUp returns what a request's cookie stands for.
func (s *SignIns) lookUp(r *http.Request) (signedIn, bool) {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return signedIn{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.keys[cookie.Value]
	return in, ok && s.now().Before(in.until)
}

// key returns the key of a request's cookie.
func (s *SignIns) key(r *http.Request) (string, bool) {
	in, ok := s.lookUp(r)
	return in.key, ok && in.key != ""
}

// has reports whether the request is of somebody who signed in with a key. Without sign-ins
// nobody has.
func (s *SignIns) has(r *http.Request) bool {
	if s == nil {
		return false
	}
	_, ok := s.key(r)
	return ok
}

// admit takes a key that is good, or none, and returns the value of its cookie.
func (s *SignIns) admit(key string) string {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		oldest := s.order[0]
		in, held := s.keys[oldest]
		if held && len(s.order) < maxSignIns && s.now().Before(in.until) {
			break
		}
		delete(s.keys, oldest)
		s.order = s.order[1:]
	}
	s.keys[token] = signedIn{key, s.now().Add(signInTime)}
	s.order = append(s.order, token)
	return token
}

func (s *SignIns) close(r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		delete(s.keys, cookie.Value)
		s.mu.Unlock()
	}
}

// signInPage is the form and what was wrong with its last use.
type signInPage struct {
	Next, Wrong string
	Token       bool // it asks for the token and not for a key
}

func (c *Console) signInForm(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	return c.askForKey(w, r, http.StatusOK, signInPage{Next: local(r.URL.Query().Get("next"))})
}

func (c *Console) askForKey(w http.ResponseWriter, r *http.Request, status int, p signInPage) error {
	p.Token = c.signIns.asksForToken()
	return c.show(w, r, status, page{Title: "Sign in", Body: "sign-in", Data: p})
}

// signIn takes the key of the form. That the form is one of ours the edge has made sure of
// (http.CrossOriginProtection).
func (c *Console) signIn(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignInForm)
	if err := r.ParseForm(); err != nil {
		return agent.Errorf(agent.KindInvalidRequest, "The form could not be read. Go back and send it again.").Because(err)
	}
	key, next := strings.TrimSpace(r.PostForm.Get("key")), local(r.PostForm.Get("next"))
	if c.signIns.asksForToken() {
		return c.takeToken(w, r, key, next)
	}
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return c.askForKey(w, r, http.StatusUnprocessableEntity, signInPage{Next: next, Wrong: "Paste the whole key; it has no spaces in it."})
	}
	if _, err := c.signIns.next.Authenticate(withKey(r, key)); err != nil {
		if agent.KindOf(err) != agent.KindUnauthenticated {
			return err
		}
		return c.askForKey(w, r, http.StatusUnprocessableEntity, signInPage{Next: next, Wrong: "This key is not valid. It may have expired or been revoked."})
	}
	return c.welcome(w, r, key, next)
}

// welcome gives a browser its cookie and leads it on.
func (c *Console) welcome(w http.ResponseWriter, r *http.Request, key, next string) error {
	http.SetCookie(w, cookie(r, c.signIns.admit(key), int(signInTime.Seconds())))
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	c.signIns.close(r)
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
	return nil
}

// cookieName has the server's port in it: browsers send a cookie to every port of a host, and
// the servers of one machine would sign each other's readers out.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookiePrefix + "_" + port
	}
	return cookiePrefix
}

func cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}
}

// local returns an address on this server, the console's first page when next is none.
func local(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}
