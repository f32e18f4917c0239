package server

import (
	"context"
	"net/http"
	"time"
)

// Health says whether the server lives or is ready.
type Health struct {
	Status string `json:"status" enum:"ok,draining,unavailable"`
	// Failing names what keeps the server from taking turns; the log says why.
	Failing []string `json:"failing,omitempty" doc:"What keeps the server from taking new turns: the store that does not answer."`
}

// anyJSON stands for a document that describes itself.
type anyJSON struct{}

// readyWithin bounds the question whether the store answers.
const readyWithin = 2 * time.Second

func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, Health{Status: "ok"})
}

// readiness tells a load balancer whether to send new turns here.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) error {
	if s.draining.Load() {
		return writeJSON(w, http.StatusServiceUnavailable, Health{Status: "draining"})
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		s.log.WarnContext(ctx, "not ready", "error", err)
		return writeJSON(w, http.StatusServiceUnavailable, Health{Status: "unavailable", Failing: []string{"store"}})
	}
	return writeJSON(w, http.StatusOK, Health{Status: "ok"})
}

func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	m, err := s.manual()
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, "application/json", m.openAPI)
}

func (s *Server) getDocs(w http.ResponseWriter, _ *http.Request) error {
	m, err := s.manual()
	if err != nil {
		return err
	}
	return m.docs.write(w)
}
