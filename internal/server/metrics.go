package server

import (
	"bytes"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// getMetrics answers with what the server has counted, of all organisations together.
func (s *Server) getMetrics(w http.ResponseWriter, _ *http.Request) error {
	if s.noted == nil {
		return errNoRoute()
	}
	var b bytes.Buffer
	if err := s.noted.WriteMetrics(&b); err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, telemetry.MetricsType, b.Bytes())
}

// MetricsServer returns a server for addr that has the metrics and nothing else, for
// scrapers without a credential.
func (s *Server) MetricsServer(addr string) *http.Server {
	web := s.HTTPServer(addr)
	web.Handler = http.HandlerFunc(s.serveMetrics)
	web.WriteTimeout, web.ReadTimeout = s.writeTimeout, s.bodyIdle
	return web
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := s.scrape(w, r); err != nil {
		writeProblem(w, err, requestID(r))
	}
}

func (s *Server) scrape(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !s.scrapedAs(r.Host) || foreignRead(r):
		return agent.Errorf(agent.KindForbidden, "The metrics are served under addresses, loopback names and the names in the setting hosts.")
	case r.URL.Path != "/metrics":
		return agent.Errorf(agent.KindNotFound, "There is nothing here but /metrics.")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		return agent.Errorf(agent.KindMethodNotAllowed, "/metrics takes GET, HEAD.")
	}
	return s.getMetrics(w, r)
}

// scrapedAs reports whether the listener of the metrics has the name in a Host header.
// Scrapers know addresses, which no rebound name looks like; names must be listed.
func (s *Server) scrapedAs(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || loopbackHost(hostport) || s.lists(host)
}
