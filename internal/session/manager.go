// Package session owns sessions and the only path on which a session's mode is
// written (AGN-011 §3). A turn begins here: its session is prepared or loaded and
// its mode normalised; agent_change_mode and the user's own mode switch end here.
package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/quota"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/turnstile"
)

// Store is what the manager needs of the journal.
type Store interface {
	CreateSession(ctx context.Context, s agent.Session) error
	CountSessions(ctx context.Context, org agent.OrgID, most int) (int, error)
	Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error)
	Sessions(ctx context.Context, org agent.OrgID, p store.Page) ([]agent.Session, string, error)
	SessionsOfUser(ctx context.Context, org agent.OrgID, user agent.UserID, p store.Page) ([]agent.Session, string, error)
	SetTools(ctx context.Context, org agent.OrgID, id agent.SessionID, tools json.RawMessage) error
	ChangeMode(ctx context.Context, c agent.ModeChange) (agent.Session, agent.ModeChange, bool, error)
	ModeHistory(ctx context.Context, org agent.OrgID, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error)
	BranchSession(ctx context.Context, b store.Branch) error
	LastCompleted(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Turn, error)
	Turn(ctx context.Context, k agent.TurnKey) (agent.Turn, error)
	Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error)
}

// Contexts resolves agent and conversation contexts, which come from configuration.
// Empty names mean the defaults; an unknown one is agent.KindUnknownContext.
type Contexts interface {
	Resolve(agentContext, conversationContext string) (agentID, conversationID string, c agent.ConversationContext, err error)
}

// Catalogs has the modes in force: a *mode.Catalog, or a *mode.Live that may be given
// another one.
type Catalogs interface {
	Current() *mode.Catalog
}

// Config holds the parts of a Manager; all are required but Consent, Quotas and Now.
type Config struct {
	Store    Store
	Catalog  Catalogs
	Registry *tool.Registry
	Contexts Contexts
	Log      *slog.Logger
	// Consent tells that the model changes no mode without the user's approval
	// (decision 17).
	Consent bool
	// Quotas say how many sessions an organisation may have.
	Quotas quota.Plans
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Manager creates, reads and changes sessions.
type Manager struct {
	store    Store
	catalog  Catalogs
	registry *tool.Registry
	contexts Contexts
	log      *slog.Logger
	consent  bool
	quotas   quota.Plans
	making   turnstile.Turnstiles[agent.OrgID]
	now      func() time.Time
}

// New returns a manager, or an error when a part is missing.
func New(c Config) (*Manager, error) {
	if c.Store == nil || c.Catalog == nil || c.Registry == nil || c.Contexts == nil || c.Log == nil {
		return nil, errors.New("session: Store, Catalog, Registry, Contexts and Log are all required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Manager{store: c.Store, catalog: c.Catalog, registry: c.Registry, contexts: c.Contexts, log: c.Log, consent: c.Consent, quotas: c.Quotas, now: c.Now}, nil
}

// Prepare returns the session that a creation asks for, without storing it. A
// session without a stated mode starts in `general` (AGN-011 §3.1); the mode is
// settled here, before anything is created.
func (m *Manager) Prepare(by agent.Caller, c contract.CreateSession) (agent.Session, error) {
	if c.Mode == "" {
		c.Mode = agent.ModeGeneral
	}
	if err := knownMode(m.catalog.Current(), c.Mode); err != nil {
		return agent.Session{}, err
	}
	tools, err := m.clientTools(c.Tools)
	if err != nil {
		return agent.Session{}, err
	}
	agentID, conversationID, _, err := m.contexts.Resolve(c.AgentContextID, c.ConversationContextID)
	if err != nil {
		return agent.Session{}, err
	}
	if c.SessionID == "" {
		c.SessionID = newID()
	}
	if c.Concurrency == "" {
		c.Concurrency = agent.ConcurrencyReject
	}
	now := m.now().UTC().Truncate(time.Microsecond)
	return agent.Session{
		Org: by.Org, ID: c.SessionID, CreatedBy: by.User,
		Mode: c.Mode, Version: 1,
		SystemPrompt: c.SystemPrompt, ClientTools: tools,
		AgentContext: agentID, ConversationContext: conversationID,
		Concurrency: c.Concurrency, Entry: agent.EntryPending,
		CreatedAt: now, UpdatedAt: now,
	}, nil
}

func newID() agent.SessionID { return agent.SessionID("s_" + strings.ToLower(rand.Text())) }

// Create stores a new session. A taken id is agent.KindSessionExists.
func (m *Manager) Create(ctx context.Context, by agent.Caller, c contract.CreateSession) (agent.Session, error) {
	s, err := m.Prepare(by, c)
	if err != nil {
		return agent.Session{}, err
	}
	made, err := m.Room(ctx, by.Org)
	if err != nil {
		return agent.Session{}, err
	}
	defer made()
	if err := m.store.CreateSession(ctx, s); errors.Is(err, store.ErrExists) {
		return agent.Session{}, agent.Errorf(agent.KindSessionExists,
			"A session %q exists already. Use it, or choose another sessionId.", s.ID)
	} else if err != nil {
		return agent.Session{}, fmt.Errorf("create session %s: %w", s.ID, err)
	}
	return s, nil
}

// Get reads a session; another organisation's is agent.KindNotFound.
func (m *Manager) Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error) {
	return m.store.Session(ctx, by.Org, id)
}

// List pages through the sessions that the caller sees, newest first.
func (m *Manager) List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.Session, string, error) {
	if by.OnlyOwn() {
		return m.store.SessionsOfUser(ctx, by.Org, by.User, p)
	}
	return m.store.Sessions(ctx, by.Org, p)
}

// SetTools replaces the session's client tools, from the next turn on (decision 5).
func (m *Manager) SetTools(ctx context.Context, by agent.Caller, id agent.SessionID, raw json.RawMessage) (agent.Session, error) {
	tools, err := m.clientTools(raw)
	if err != nil {
		return agent.Session{}, err
	}
	if err := m.store.SetTools(ctx, by.Org, id, tools); err != nil {
		return agent.Session{}, err
	}
	return m.store.Session(ctx, by.Org, id)
}

// ModeHistory pages through the session's mode changes, newest last.
func (m *Manager) ModeHistory(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error) {
	return m.store.ModeHistory(ctx, by.Org, id, p)
}

// SetSessionMode is the single write path of a session's mode (AGN-011 §3.2,
// decision 11): mode, history and version change in one transaction, at most once
// for one tool call. A mode outside the catalogue, within a turn that of the turn, is
// agent.KindUnknownMode; the mode that the session is in already succeeds and leaves no
// history (decision 12). Where consent is required a change by the model names its approval
// or is agent.KindForbidden; while the session enters its mode every change is
// agent.KindTurnInProgress.
func (m *Manager) SetSessionMode(ctx context.Context, c agent.ModeChange) (agent.Session, error) {
	if err := knownMode(mode.Of(ctx, m.catalog.Current()), c.Mode); err != nil {
		return agent.Session{}, err
	}
	if m.consent && c.Actor == agent.ActorModel && c.Approval == "" {
		return m.withoutConsent(ctx, c)
	}
	c.At = m.now().UTC().Truncate(time.Microsecond)
	failpoint.Hit(failpoint.BeforeMode)
	s, change, applied, err := m.store.ChangeMode(ctx, c)
	failpoint.Hit(failpoint.AfterMode)
	if errors.Is(err, store.ErrEntering) {
		return agent.Session{}, agent.Errorf(agent.KindTurnInProgress,
			"The session is entering its mode: the mode's bootstrap tools run. Change the mode when they have ended.")
	}
	if err != nil {
		return agent.Session{}, fmt.Errorf("set mode of session %s to %s: %w", c.Session, c.Mode, err)
	}
	if applied {
		m.log.InfoContext(ctx, "mode changed", "session", s.ID, "from", change.Previous, "to", change.Mode,
			"actor", change.Actor, "user", change.User, "turn", change.Turn, "reason", change.Reason)
	}
	return s, nil
}

// withoutConsent lets the model have the mode that the session is in, and no other. Nothing
// is written, so that it holds whatever the user does at this moment.
func (m *Manager) withoutConsent(ctx context.Context, c agent.ModeChange) (agent.Session, error) {
	s, err := m.store.Session(ctx, c.Org, c.Session)
	if err != nil {
		return agent.Session{}, fmt.Errorf("read session %s: %w", c.Session, err)
	}
	if s.Mode != c.Mode {
		return agent.Session{}, agent.Errorf(agent.KindForbidden, "The mode of session %q changes with the consent of its user only.", c.Session)
	}
	return s, nil
}

// NormaliseMode returns the mode that governs a turn of the session: always the
// persisted one. A client that claims another is warned about in the log and the
// turn goes on (AGN-011 §3.3).
func (m *Manager) NormaliseMode(ctx context.Context, s agent.Session, claimed agent.ModeKey) agent.ModeKey {
	current := s.Mode
	if current == "" {
		current = agent.ModeGeneral
	}
	if claimed != "" && claimed != current {
		m.log.WarnContext(ctx, "client claims another mode than the session's; the session's is used",
			"session", s.ID, "claimed", claimed, "mode", current)
	}
	return current
}

func knownMode(c *mode.Catalog, key agent.ModeKey) error {
	if _, ok := c.Get(key); ok {
		return nil
	}
	return agent.Errorf(agent.KindUnknownMode, "There is no mode %q. Valid modes: %s.", key, strings.Join(c.Keys(), ", "))
}

func (m *Manager) clientTools(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return tool.ParseClient(raw, m.registry.Reserved)
}
