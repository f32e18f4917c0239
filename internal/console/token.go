package console

import (
	"net/http"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/server"
)

// Token is what a browser has to show once while nobody has to authenticate: whoever reads
// what the server printed has it, and no page or other user of the machine. It is another
// one after each start, and empty when it is not asked for.
func (s *SignIns) Token() secret.Text {
	if !s.asksForToken() {
		return secret.Text{}
	}
	return s.token
}

// asksForToken reports whether the pages are for browsers that showed the token. Where
// callers authenticate, the edge has seen to that.
func (s *SignIns) asksForToken() bool { return s != nil && s.asks != nil && s.asks() }

// showedToken reports whether the request is of a browser that did.
func (s *SignIns) showedToken(r *http.Request) bool {
	in, ok := s.lookUp(r)
	return ok && in.key == ""
}

// withToken serves a page to browsers that showed the token, and takes it from the address.
func (c *Console) withToken(p server.Page) server.Page {
	serve := p.Serve
	p.Serve = func(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
		if !c.signIns.asksForToken() {
			return serve(w, r, by)
		}
		if q := r.URL.Query(); q.Has("token") {
			shown, clean := q.Get("token"), *r.URL
			q.Del("token")
			clean.RawQuery = q.Encode()
			return c.takeToken(w, r, shown, local(clean.RequestURI()))
		}
		if !c.signIns.showedToken(r) {
			return agent.Errorf(agent.KindUnauthenticated, "Open the console at the address that the server printed when it was started.")
		}
		return serve(w, r, by)
	}
	return p
}

// takeToken signs a browser in that shows the token and leads it on to next.
func (c *Console) takeToken(w http.ResponseWriter, r *http.Request, shown, next string) error {
	if !secret.New(shown).Equal(c.signIns.token) {
		wrong := "This token is not the one of this server. It has another one after each start."
		err := c.signIns.guesses.Count(r.RemoteAddr, agent.Errorf(agent.KindUnauthenticated, "%s", wrong))
		if agent.KindOf(err) != agent.KindUnauthenticated {
			return err
		}
		return c.askForKey(w, r, http.StatusUnprocessableEntity, signInPage{Next: next, Wrong: wrong})
	}
	return c.welcome(w, r, "", next)
}
