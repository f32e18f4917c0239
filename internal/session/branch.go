package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
)

// Branch makes a new session that remembers what this one does up to a completed turn
// (AGN-011 §5.6: the caller acts on the flag, the pipeline never does). It has the same
// prompt, tools and contexts, and a history of modes of its own; what the user approved for
// the session he did not approve for this one. A session that the caller named and that
// exists already is returned when it is this very branch, and is agent.KindSessionExists
// otherwise.
func (m *Manager) Branch(ctx context.Context, by agent.Caller, id agent.SessionID, c contract.BranchSession) (agent.Session, error) {
	parent, err := m.store.Session(ctx, by.Org, id)
	if err != nil {
		return agent.Session{}, err
	}
	if c.Mode != "" {
		if err := knownMode(m.catalog.Current(), c.Mode); err != nil {
			return agent.Session{}, err
		}
	}
	if c.SessionID != "" {
		there, err := m.store.Session(ctx, by.Org, c.SessionID)
		if agent.KindOf(err) != agent.KindNotFound {
			return m.sameBranch(ctx, by, there, parent, c, err)
		}
	}
	b, err := m.branch(ctx, by, parent, c)
	if err != nil {
		return agent.Session{}, err
	}
	made, err := m.Room(ctx, by.Org)
	if err != nil {
		return agent.Session{}, err
	}
	defer made()
	err = m.store.BranchSession(ctx, b)
	if errors.Is(err, store.ErrExists) {
		there, err := m.store.Session(ctx, by.Org, c.SessionID)
		return m.sameBranch(ctx, by, there, parent, c, err)
	}
	if err != nil {
		return agent.Session{}, fmt.Errorf("branch off session %s: %w", id, err)
	}
	m.log.InfoContext(ctx, "session branched", "session", b.Session.ID, "parent", id, "turn", b.Session.Parent.Turn, "mode", b.Session.Mode)
	return m.store.Session(ctx, by.Org, b.Session.ID)
}

// branch prepares the new session.
func (m *Manager) branch(ctx context.Context, by agent.Caller, parent agent.Session, c contract.BranchSession) (store.Branch, error) {
	at, err := m.branchPoint(ctx, parent, c.AtTurnID)
	if err != nil {
		return store.Branch{}, err
	}
	s := parent
	s.ID, s.CreatedBy, s.Version, s.Approved, s.Entry = c.SessionID, by.User, 1, nil, agent.EntryPending
	if s.ID == "" {
		s.ID = newID()
	}
	if c.Mode != "" {
		s.Mode = c.Mode
	}
	s.Parent, s.LastResponseID = agent.Lineage{Session: parent.ID, Turn: at.Key.Turn}, ""
	s.CreatedAt = m.now().UTC().Truncate(time.Microsecond)
	if at.Ordinal > 0 {
		// The next request goes on from the answer of that turn, chained or replayed.
		if s.LastResponseID, err = m.responseOf(ctx, at.Key); err != nil {
			return store.Branch{}, err
		}
	}
	return store.Branch{Session: s, Ordinal: at.Ordinal}, nil
}

// branchPoint returns the turn up to which the new session remembers; the zero turn when
// there is nothing to remember.
func (m *Manager) branchPoint(ctx context.Context, parent agent.Session, id agent.TurnID) (agent.Turn, error) {
	if id == "" {
		at, err := m.store.LastCompleted(ctx, parent.Org, parent.ID)
		if agent.KindOf(err) == agent.KindNotFound {
			return agent.Turn{}, nil
		}
		return at, err
	}
	at, err := m.store.Turn(ctx, agent.TurnKey{Org: parent.Org, Session: parent.ID, Turn: id})
	switch {
	case err != nil:
		return agent.Turn{}, err
	case !at.State.Terminal():
		return agent.Turn{}, agent.Errorf(agent.KindTurnInProgress, "Turn %q is %s. Branch off it when it is completed, or off an earlier turn.", id, at.State)
	case at.State != agent.TurnCompleted:
		return agent.Turn{}, agent.Errorf(agent.KindInvalidRequest, "Turn %q is %s, so the conversation does not hold it. Branch off a completed turn.", id, at.State)
	}
	return at, nil
}

// responseOf returns the provider's id of a turn's last response.
func (m *Manager) responseOf(ctx context.Context, key agent.TurnKey) (string, error) {
	steps, err := m.store.Steps(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	for _, s := range slices.Backward(steps) {
		if s.Answered != nil {
			return s.Answered.ResponseID, nil
		}
	}
	return "", fmt.Errorf("turn %s is completed and its journal has no answer", key)
}

// sameBranch returns the session that is there when the same request made it.
func (m *Manager) sameBranch(ctx context.Context, by agent.Caller, there, parent agent.Session, c contract.BranchSession, err error) (agent.Session, error) {
	if err != nil {
		return agent.Session{}, err
	}
	if !by.Sees(there) {
		return agent.Session{}, agent.Errorf(agent.KindSessionExists, "A session %q exists already. Choose another sessionId.", there.ID)
	}
	began := there.Mode
	changes, _, err := m.store.ModeHistory(ctx, by.Org, there.ID, store.Page{Limit: 1})
	if err != nil {
		return agent.Session{}, err
	}
	if len(changes) > 0 {
		began = changes[0].Previous
	}
	if there.Parent.Session != parent.ID || c.AtTurnID != "" && there.Parent.Turn != c.AtTurnID || c.Mode != "" && began != c.Mode {
		return agent.Session{}, agent.Errorf(agent.KindSessionExists,
			"A session %q exists already and is not this branch of %q. Use it, or choose another sessionId.", there.ID, parent.ID)
	}
	return there, nil
}
