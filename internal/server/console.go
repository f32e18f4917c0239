package server

import (
	"net/http"

	"github.com/aptixhq/aptix/internal/agent"
)

// Console is the web application for people, of which the edge knows its pages only. They
// are guarded, routed, given their caller and logged as the API's routes are.
type Console interface {
	// Pages are read once, when the server is built.
	Pages() []Page
	// Fault answers a request for a page with what went wrong. Nothing of the answer is out.
	Fault(w http.ResponseWriter, r *http.Request, p Problem)
}

// Page is one route of the console.
type Page struct {
	Method, Pattern string
	// Public lets anybody in; the page then shows nothing of anyone's, and by is nobody.
	Public bool
	Serve  func(w http.ResponseWriter, r *http.Request, by agent.Caller) error
}

// pageRoutes are the rows of the console's pages in the table of routes.
func pageRoutes(c Console) []route {
	if c == nil {
		return nil
	}
	var rows []route
	for _, p := range c.Pages() {
		row := route{method: p.Method, pattern: p.Pattern, class: user, id: p.Method + " " + p.Pattern, summary: "A page of the console",
			handle: func(_ *Server, w http.ResponseWriter, r *http.Request) error { return p.Serve(w, r, callerOf(r)) },
			in:     nothing, out: gives(htmlBody)}
		if p.Public {
			row.class = public
		}
		rows = append(rows, row)
	}
	return rows
}
