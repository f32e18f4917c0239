package access

import (
	"context"
	"encoding/json"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store"
)

// Sessions is a session manager as callers have it.
type Sessions struct {
	all   *session.Manager
	guard guard
}

// NewSessions returns the sessions of a manager.
func NewSessions(m *session.Manager) *Sessions { return &Sessions{all: m, guard: guard{m}} }

// Create stores a new session; see session.Manager. That a name is taken it says of the
// sessions of others too: they cannot have it both.
func (s *Sessions) Create(ctx context.Context, by agent.Caller, c contract.CreateSession) (agent.Session, error) {
	return s.all.Create(ctx, by, c)
}

// Get reads a session.
func (s *Sessions) Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error) {
	return s.guard.read(ctx, by, id)
}

// List pages through the caller's sessions, newest first.
func (s *Sessions) List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.Session, string, error) {
	return s.all.List(ctx, by, p) // which asks the store for these only
}

// SetTools replaces the session's client tools.
func (s *Sessions) SetTools(ctx context.Context, by agent.Caller, id agent.SessionID, tools json.RawMessage) (agent.Session, error) {
	if err := s.guard.session(ctx, by.Org, id); err != nil {
		return agent.Session{}, err
	}
	return s.all.SetTools(ctx, by, id, tools)
}

// ModeHistory pages through the session's mode changes.
func (s *Sessions) ModeHistory(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error) {
	if err := s.guard.session(ctx, by.Org, id); err != nil {
		return nil, "", err
	}
	return s.all.ModeHistory(ctx, by, id, p)
}

// Branch makes a session that remembers what this one does. It belongs to who made it.
func (s *Sessions) Branch(ctx context.Context, by agent.Caller, id agent.SessionID, b contract.BranchSession) (agent.Session, error) {
	if err := s.guard.session(ctx, by.Org, id); err != nil {
		return agent.Session{}, err
	}
	return s.all.Branch(ctx, by, id, b)
}

// SetSessionMode changes the mode by hand.
func (s *Sessions) SetSessionMode(ctx context.Context, c agent.ModeChange) (agent.Session, error) {
	if err := s.guard.session(ctx, c.Org, c.Session); err != nil {
		return agent.Session{}, err
	}
	return s.all.SetSessionMode(ctx, c)
}
