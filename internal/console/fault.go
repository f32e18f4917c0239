package console

import (
	"net/http"
	"net/url"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/server"
)

// Fault answers with a page that says what went wrong, or, to htmx, with the part of it that
// counts. Whoever is not signed in is led to where that is done.
func (c *Console) Fault(w http.ResponseWriter, r *http.Request, p server.Problem) {
	part := r.Header.Get("HX-Request") != ""
	if p.Code == agent.KindUnauthenticated && c.signIns != nil {
		there := "/sign-in?next=" + url.QueryEscape(r.URL.RequestURI())
		if part {
			w.Header().Set("HX-Redirect", "/sign-in")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Redirect(w, r, there, http.StatusSeeOther)
		return
	}
	var html []byte
	var err error
	if part {
		html, err = render("fault", p)
	} else {
		html, err = render("frame", framed{page{Title: p.Title, SignedIn: c.signIns.has(r), Body: "fault", Data: p}, ""})
	}
	if err != nil { // the templates are broken; the log has the fault itself
		http.Error(w, p.Detail, p.Status)
		return
	}
	_ = write(w, p.Status, html)
}
