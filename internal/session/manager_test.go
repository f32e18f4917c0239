package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

var (
	alice = agent.Caller{Org: "acme", User: "alice"}
	eve   = agent.Caller{Org: "globex", User: "eve"}
	noon  = time.Date(2026, 5, 4, 12, 0, 0, 123456789, time.FixedZone("CEST", 2*60*60))
)

// counted is the store with the writes of modes counted, in order.
type counted struct {
	*sqlite.Store
	changes []agent.ModeChange
	fail    error
}

func (c *counted) ChangeMode(ctx context.Context, ch agent.ModeChange) (agent.Session, agent.ModeChange, bool, error) {
	c.changes = append(c.changes, ch)
	if c.fail != nil {
		return agent.Session{}, agent.ModeChange{}, false, c.fail
	}
	return c.Store.ChangeMode(ctx, ch)
}

// contexts is a configuration with one agent context that has two conversations.
type contexts struct{}

func (contexts) Resolve(agentID, conversationID string) (string, string, agent.ConversationContext, error) {
	if agentID == "" {
		agentID = "main"
	}
	if conversationID == "" {
		conversationID = "short"
	}
	if agentID != "main" || conversationID != "short" && conversationID != "long" {
		return "", "", agent.ConversationContext{}, agent.Errorf(agent.KindUnknownContext, "There is no context %q in %q. Valid: short, long.", conversationID, agentID)
	}
	return agentID, conversationID, agent.ConversationContext{ID: conversationID}, nil
}

type late struct{ *session.Manager }

// office is a manager over a real database file, with what it logs.
type office struct {
	*session.Manager
	store *counted
	log   *bytes.Buffer
}

func newOffice(t *testing.T, with ...func(*session.Config)) office {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlitetest.File(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	o := office{store: &counted{Store: db}, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(o.log, nil))
	sessions := &late{}
	change, err1 := builtin.NewChangeMode(sessions, log)
	list, err2 := builtin.NewListModes(mode.Builtin(), log)
	registry, err3 := tool.NewRegistry(change, list)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	c := session.Config{Store: o.store, Catalog: mode.Builtin(), Registry: registry, Contexts: contexts{}, Log: log, Now: func() time.Time { return noon }}
	for _, f := range with {
		f(&c)
	}
	o.Manager, err = session.New(c)
	if err != nil {
		t.Fatal(err)
	}
	sessions.Manager = o.Manager
	return o
}

func (o office) create(t *testing.T, c contract.CreateSession) agent.Session {
	t.Helper()
	s, err := o.Create(t.Context(), alice, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (o office) history(t *testing.T, id agent.SessionID) []agent.ModeChange {
	t.Helper()
	rows, next, err := o.ModeHistory(t.Context(), alice, id, store.Page{})
	if err != nil || next != "" {
		t.Fatalf("history of %s: next %q, error %v", id, next, err)
	}
	return rows
}

func TestNew_NamesWhatIsMissing(t *testing.T) {
	if _, err := session.New(session.Config{}); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("got %v, want an error that says what is required", err)
	}
}

const clientTool = `[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object"}}]`

func TestPrepare(t *testing.T) {
	prove.Rule(t, "AGN011-3.1-a", "AGN011-3.1-b", "AGN011-3.3-b")
	at := noon.UTC().Truncate(time.Microsecond)
	base := agent.Session{Org: "acme", ID: "s1", CreatedBy: "alice", Mode: "general", Version: 1,
		AgentContext: "main", ConversationContext: "short", Concurrency: agent.ConcurrencyReject, Entry: agent.EntryPending, CreatedAt: at, UpdatedAt: at}
	with := func(change func(*agent.Session)) agent.Session {
		s := base
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		in   contract.CreateSession
		want agent.Session
	}{
		{"nothing asked for starts in general", contract.CreateSession{}, base},
		{"a mode of the caller's choice", contract.CreateSession{Mode: "ddr_authoring"}, with(func(s *agent.Session) { s.Mode = "ddr_authoring" })},
		{"general, in words", contract.CreateSession{Mode: "general"}, base},
		{"another conversation context", contract.CreateSession{AgentContextID: "main", ConversationContextID: "long"},
			with(func(s *agent.Session) { s.ConversationContext = "long" })},
		{"a prompt of its own", contract.CreateSession{SystemPrompt: " Be brief.\n"}, with(func(s *agent.Session) { s.SystemPrompt = " Be brief.\n" })},
		{"client tools, in the nested form", contract.CreateSession{Tools: json.RawMessage(`[{"type":"function","function":{"name":"read_file","description":"Reads.","parameters":{"type":"object"}}}]`)},
			with(func(s *agent.Session) {
				s.ClientTools = json.RawMessage(`[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object"},"strict":false}]`)
			})},
		{"no client tools", contract.CreateSession{Tools: json.RawMessage(`[]`)}, base},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			tt.in.SessionID = "s1"
			got, err := o.Prepare(alice, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
			if _, err := o.Get(t.Context(), alice, "s1"); agent.KindOf(err) != agent.KindNotFound {
				t.Errorf("preparing a session stores it (%v)", err)
			}
		})
	}
}

func TestPrepare_Refuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   contract.CreateSession
		kind agent.Kind
		says []string
	}{
		{"an unknown mode, naming the others", contract.CreateSession{Mode: "poetry"}, agent.KindUnknownMode, []string{`"poetry"`, "general", "ddr_authoring", "workflow_authoring"}},
		{"a mode in other letters", contract.CreateSession{Mode: "General"}, agent.KindUnknownMode, []string{`"General"`}},
		{"an unknown conversation context", contract.CreateSession{ConversationContextID: "tall"}, agent.KindUnknownContext, []string{`"tall"`}},
		{"an unknown agent context", contract.CreateSession{AgentContextID: "other"}, agent.KindUnknownContext, []string{`"other"`}},
		{"a client tool with the name of a server tool", contract.CreateSession{Tools: named(tool.ChangeMode)}, agent.KindInvalidRequest, []string{tool.ChangeMode}},
		{"and of any of them", contract.CreateSession{Tools: named(tool.ListModes)}, agent.KindInvalidRequest, []string{tool.ListModes}},
		{"and one that only looks like it", contract.CreateSession{Tools: named("Agent-Change-Mode")}, agent.KindInvalidRequest, []string{"Agent-Change-Mode"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			tt.in.SessionID = "s1"
			_, err := o.Create(t.Context(), alice, tt.in)
			if agent.KindOf(err) != tt.kind {
				t.Fatalf("got %v, want %s", err, tt.kind)
			}
			fault := agent.FaultOf(err)
			text := fmt.Sprint(fault.Message, fault.Violations)
			for _, s := range tt.says {
				if !strings.Contains(text, s) {
					t.Errorf("the fault does not say %q: %s", s, text)
				}
			}
			if _, err := o.Get(t.Context(), alice, "s1"); agent.KindOf(err) != agent.KindNotFound {
				t.Errorf("a refused session is stored (%v)", err)
			}
		})
	}
}

func named(name string) json.RawMessage {
	return fmt.Appendf(nil, `[{"type":"function","name":%q,"parameters":{"type":"object"}}]`, name)
}

func TestCreate_ModeIsPersisted(t *testing.T) {
	prove.Rule(t, "AGN011-3.1-c", "AGN011-3.3-c")
	o := newOffice(t)
	for _, c := range []contract.CreateSession{{SessionID: "s1"}, {SessionID: "s2", Mode: "workflow_authoring", Tools: json.RawMessage(clientTool), SystemPrompt: "p"}} {
		made := o.create(t, c)
		stored, err := o.Get(t.Context(), alice, c.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, stored); diff != "" {
			t.Errorf("created against stored: -got +want\n%s", diff)
		}
		if rows := o.history(t, c.SessionID); len(rows) != 0 {
			t.Errorf("a new session has the history %+v", rows)
		}
	}
}

func TestCreate_ChoosesFreshIDs(t *testing.T) {
	o := newOffice(t)
	seen := map[agent.SessionID]bool{}
	for range 20 {
		s := o.create(t, contract.CreateSession{})
		if !agent.ValidID(string(s.ID)) || seen[s.ID] {
			t.Errorf("id %q is not valid or not fresh", s.ID)
		}
		seen[s.ID] = true
	}
}

func TestCreate_TakenID(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1", Mode: "ddr_authoring"})
	if _, err := o.Create(t.Context(), alice, contract.CreateSession{SessionID: "s1"}); agent.KindOf(err) != agent.KindSessionExists {
		t.Errorf("got %v, want session_exists", err)
	}
	if s, err := o.Get(t.Context(), alice, "s1"); err != nil || s.Mode != "ddr_authoring" {
		t.Errorf("the first session is in mode %q now (%v)", s.Mode, err)
	}
	if _, err := o.Create(t.Context(), eve, contract.CreateSession{SessionID: "s1"}); err != nil {
		t.Errorf("the same id in another organisation: %v", err)
	}
}

func TestAnotherOrganisationSeesNothing(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1", Tools: json.RawMessage(clientTool)})
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"get":   func() error { _, err := o.Get(ctx, eve, "s1"); return err },
		"tools": func() error { _, err := o.SetTools(ctx, eve, "s1", json.RawMessage(`[]`)); return err },
		"mode": func() error {
			_, err := o.SetSessionMode(ctx, agent.ModeChange{Org: eve.Org, Session: "s1", Mode: "ddr_authoring", Reason: "r", User: eve.User, Actor: agent.ActorUser})
			return err
		},
		"history": func() error { _, _, err := o.ModeHistory(ctx, eve, "s1", store.Page{}); return err },
	} {
		if err := do(); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("%s: %v, want not_found", name, err)
		}
	}
	if list, _, err := o.List(ctx, eve, store.Page{}); err != nil || len(list) != 0 {
		t.Errorf("list: %d sessions (%v)", len(list), err)
	}
	s, err := o.Get(ctx, alice, "s1")
	if err != nil || s.Mode != "general" || s.Version != 1 || len(s.ClientTools) == 0 {
		t.Errorf("the session is %+v now (%v)", s, err)
	}
}

func TestList_NewestFirst(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	o.create(t, contract.CreateSession{SessionID: "s2"})
	list, _, err := o.List(t.Context(), alice, store.Page{})
	if err != nil || len(list) != 2 || list[0].ID != "s2" {
		t.Errorf("sessions %+v (%v), want s2 and s1", list, err)
	}
}

func TestSetTools(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	s, err := o.SetTools(t.Context(), alice, "s1", json.RawMessage(clientTool))
	if err != nil || !strings.Contains(string(s.ClientTools), `"name":"read_file"`) || s.Version != 2 {
		t.Fatalf("tools %s, version %d (%v)", s.ClientTools, s.Version, err)
	}
	if _, err := o.SetTools(t.Context(), alice, "s1", named(tool.ChangeMode)); agent.KindOf(err) != agent.KindInvalidRequest {
		t.Errorf("a reserved name: %v, want invalid_request", err)
	}
	if s, err := o.Get(t.Context(), alice, "s1"); err != nil || s.Version != 2 || !strings.Contains(string(s.ClientTools), "read_file") {
		t.Errorf("a refused change leaves the tools %s (%v)", s.ClientTools, err)
	}
	if s, err := o.SetTools(t.Context(), alice, "s1", json.RawMessage(`[]`)); err != nil || len(s.ClientTools) != 0 {
		t.Errorf("tools %s (%v), want none", s.ClientTools, err)
	}
}

func change(to agent.ModeKey) agent.ModeChange {
	return agent.ModeChange{Org: "acme", Session: "s1", Mode: to, Reason: "The user wants it.", User: "alice", Actor: agent.ActorModel, Turn: "t1", Call: "call_1", Branch: true}
}

func TestSetSessionMode_WritesSessionAndHistory(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-a", "AGN011-3.2-c", "AGN011-3.2-d", "AGN011-3.2-e", "AGN011-3.2-f", "AGN011-3.2-g", "AGN011-3.2-h", "TUL007-3.5-c")
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	got, err := o.SetSessionMode(t.Context(), change("ddr_authoring"))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := o.Get(t.Context(), alice, "s1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, stored); diff != "" {
		t.Errorf("returned against stored: -got +want\n%s", diff)
	}
	if stored.Mode != "ddr_authoring" || stored.Version != 2 {
		t.Errorf("session in %s at version %d, want ddr_authoring at 2", stored.Mode, stored.Version)
	}
	want := change("ddr_authoring")
	want.Sequence, want.Previous, want.At = 1, "general", noon.UTC().Truncate(time.Microsecond)
	if diff := cmp.Diff(o.history(t, "s1"), []agent.ModeChange{want}); diff != "" {
		t.Errorf("history: -got +want\n%s", diff)
	}
	if n := strings.Count(o.log.String(), "mode changed"); n != 1 {
		t.Errorf("%d lines in the log tell of the change, want 1:\n%s", n, o.log)
	}
}

// Nothing but SetSessionMode writes a mode, and it does so once for each call.
func TestSetSessionMode_IsTheSingleWritePath(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-i")
	o := newOffice(t)
	ctx := t.Context()
	s := o.create(t, contract.CreateSession{SessionID: "s1", Mode: "ddr_authoring"})
	o.NormaliseMode(ctx, s, "general")
	if _, err := o.SetTools(ctx, alice, "s1", json.RawMessage(clientTool)); err != nil {
		t.Fatal(err)
	}
	o.history(t, "s1")
	if len(o.store.changes) != 0 {
		t.Errorf("the mode was written by something else: %+v", o.store.changes)
	}
	if _, err := o.SetSessionMode(ctx, change("general")); err != nil {
		t.Fatal(err)
	}
	if len(o.store.changes) != 1 {
		t.Errorf("%d writes for one change, want 1", len(o.store.changes))
	}
}

func TestSetSessionMode_UnknownMode(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	for _, m := range []agent.ModeKey{"poetry", "", "General", " general"} {
		_, err := o.SetSessionMode(t.Context(), change(m))
		if agent.KindOf(err) != agent.KindUnknownMode || !strings.Contains(err.Error(), "workflow_authoring") {
			t.Errorf("mode %q: %v, want unknown_mode with the valid ones", m, err)
		}
	}
	if s, err := o.Get(t.Context(), alice, "s1"); err != nil || s.Mode != "general" || s.Version != 1 || len(o.history(t, "s1")) != 0 {
		t.Errorf("a refused change left its mark: %+v (%v)", s, err)
	}
}

func TestSetSessionMode_SameMode(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	s, err := o.SetSessionMode(t.Context(), change("general"))
	if err != nil || s.Mode != "general" || s.Version != 1 {
		t.Errorf("session in %s at version %d (%v), want general at 1", s.Mode, s.Version, err)
	}
	if rows := o.history(t, "s1"); len(rows) != 0 {
		t.Errorf("history %+v, want none", rows)
	}
	if strings.Contains(o.log.String(), "mode changed") {
		t.Errorf("the log tells of a change:\n%s", o.log)
	}
}

func TestSetSessionMode_OncePerCall(t *testing.T) {
	prove.Rule(t, "AGN011-5.7-b")
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	for range 3 {
		if s, err := o.SetSessionMode(t.Context(), change("ddr_authoring")); err != nil || s.Mode != "ddr_authoring" {
			t.Fatalf("mode %s (%v)", s.Mode, err)
		}
	}
	back := change("general")
	back.Call = "call_2"
	if _, err := o.SetSessionMode(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	// A late repetition, by a turn that is taken up again, does not undo what came
	// after it.
	if s, err := o.SetSessionMode(t.Context(), change("ddr_authoring")); err != nil || s.Mode != "general" {
		t.Errorf("mode %s (%v), want general", s.Mode, err)
	}
	var path []string
	for _, c := range o.history(t, "s1") {
		path = append(path, fmt.Sprintf("%s>%s", c.Previous, c.Mode))
	}
	if diff := cmp.Diff(path, []string{"general>ddr_authoring", "ddr_authoring>general"}); diff != "" {
		t.Errorf("history: -got +want\n%s", diff)
	}
}

func TestSetSessionMode_StoreFails(t *testing.T) {
	o := newOffice(t)
	o.create(t, contract.CreateSession{SessionID: "s1"})
	o.store.fail = agent.Errorf(agent.KindStorageFull, "The disk is full.")
	if _, err := o.SetSessionMode(t.Context(), change("ddr_authoring")); agent.KindOf(err) != agent.KindStorageFull {
		t.Errorf("got %v, want storage_full", err)
	}
}

func TestNormaliseMode(t *testing.T) {
	prove.Rule(t, "AGN011-3.3-e", "AGN011-3.3-f", "AGN011-3.3-g", "AGN011-3.3-h", "AGN011-3.3-i", "AGN011-5.5-a")
	for _, tt := range []struct {
		name            string
		persisted, said agent.ModeKey
		want            agent.ModeKey
		warns           bool
	}{
		{"nothing claimed", "ddr_authoring", "", "ddr_authoring", false},
		{"the same claimed", "ddr_authoring", "ddr_authoring", "ddr_authoring", false},
		{"another claimed", "ddr_authoring", "general", "ddr_authoring", true},
		{"an unknown one claimed", "ddr_authoring", "poetry", "ddr_authoring", true},
		{"a persisted one that left the catalogue", "vanished", "", "vanished", false},
		{"nothing persisted", "", "", "general", false},
		{"nothing persisted, general claimed", "", "general", "general", false},
		{"nothing persisted, another claimed", "", "ddr_authoring", "general", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			got := o.NormaliseMode(t.Context(), agent.Session{Org: "acme", ID: "s1", Mode: tt.persisted}, tt.said)
			if got != tt.want {
				t.Errorf("mode %q, want %q", got, tt.want)
			}
			log := o.log.String()
			if warned := strings.Contains(log, "level=WARN"); warned != tt.warns {
				t.Errorf("warned: %t, want %t\n%s", warned, tt.warns, log)
			}
			if tt.warns && (!strings.Contains(log, "claimed="+string(tt.said)) || !strings.Contains(log, "mode="+string(tt.want))) {
				t.Errorf("the warning does not name both modes: %s", log)
			}
		})
	}
}
