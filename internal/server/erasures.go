package server

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// Erasures is what the edge needs to erase users and organisations. An erasure of another
// organisation is agent.KindNotFound.
type Erasures interface {
	EraseUser(ctx context.Context, by agent.Caller, user agent.UserID) (store.Erasure, error)
	EraseOrganisation(ctx context.Context, by agent.Caller) (store.Erasure, error)
	Erasure(ctx context.Context, by agent.Caller, id string) (store.Erasure, error)
}

// ErasureState is how far an erasure is.
type ErasureState string

// The states of an erasure.
const (
	ErasureRunning  ErasureState = "running"
	ErasureFinished ErasureState = "finished"
)

// Erasure is the erasing of a user, or of the organisation.
type Erasure struct {
	ErasureID  string       `json:"erasureId"`
	User       agent.UserID `json:"user,omitempty" doc:"Absent when it is the whole organisation."`
	State      ErasureState `json:"state"`
	Sessions   int64        `json:"sessions" doc:"How many sessions were erased so far. A crash may leave some out; the audit log has each."`
	AcceptedAt time.Time    `json:"acceptedAt"`
	FinishedAt *time.Time   `json:"finishedAt,omitempty"`
}

func erasureView(e store.Erasure) Erasure {
	v := Erasure{ErasureID: e.ID, User: e.User, State: ErasureRunning, Sessions: e.Sessions, AcceptedAt: e.CreatedAt.UTC()}
	if !e.FinishedAt.IsZero() {
		at := e.FinishedAt.UTC()
		v.State, v.FinishedAt = ErasureFinished, &at
	}
	return v
}

// maxUserID bounds what a path may name; who erases a user that there is not erases
// nothing.
const maxUserID = 256

func (s *Server) eraseUser(w http.ResponseWriter, r *http.Request) error {
	if s.erasures == nil {
		return errNoRoute()
	}
	id := r.PathValue("userId")
	if len(id) > maxUserID {
		return agent.Errorf(agent.KindNotFound, "There is no such user.")
	}
	e, err := s.erasures.EraseUser(r.Context(), callerOf(r), agent.UserID(id))
	return accepted(w, e, err)
}

// eraseOrganisation asks for the organisation's name, so that a request that was meant for
// something else, or for another organisation, erases nothing.
func (s *Server) eraseOrganisation(w http.ResponseWriter, r *http.Request) error {
	if s.erasures == nil {
		return errNoRoute()
	}
	by := callerOf(r)
	if r.URL.Query().Get("confirm") != string(by.Org) {
		return agent.Errorf(agent.KindInvalidRequest, "This erases everything that organisation %q has, and cannot be undone. Send it with ?confirm=%s.", by.Org, url.QueryEscape(string(by.Org)))
	}
	e, err := s.erasures.EraseOrganisation(r.Context(), by)
	return accepted(w, e, err)
}

func accepted(w http.ResponseWriter, e store.Erasure, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/erasures/"+url.PathEscape(e.ID))
	return writeJSON(w, http.StatusAccepted, erasureView(e))
}

func (s *Server) getErasure(w http.ResponseWriter, r *http.Request) error {
	if s.erasures == nil {
		return errNoRoute()
	}
	id := r.PathValue("erasureId")
	if !agent.ValidID(id) {
		return agent.Errorf(agent.KindNotFound, "There is no such erasure.")
	}
	e, err := s.erasures.Erasure(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, erasureView(e))
}
