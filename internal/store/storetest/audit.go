package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func auditTests() []test {
	return []test{
		{"WhatIsDoneIsRecordedWithIt", auditOfChanges},
		{"WhatIsRefusedIsNotRecorded", auditOfRefusals},
		{"DecisionsAreRecorded", auditOfDecisions},
		{"EntriesStayWhenTheirSessionGoes", auditStays},
		{"KeysAreRecordedOnce", auditOfKeys},
		{"RetentionNamesItself", auditOfRetention},
		{"ListIsFilteredAndPaged", auditList},
		{"OnlyRetentionTakesEntriesAway", auditTrim},
	}
}

// admin is on whose word things are done here.
var admin = agent.Origin{User: "ann", Role: agent.RoleAdmin, Credential: "key_1", Request: "req_1", Address: "192.0.2.7"}

func as(ctx context.Context) context.Context { return agent.WithOrigin(ctx, admin) }

// audit returns the whole log of the organisation, oldest first, without ids and times.
func audit(t *testing.T, d *data, f store.AuditFilter) []agent.AuditEntry {
	t.Helper()
	all, _ := collect(t, 2, func(p store.Page) ([]agent.AuditEntry, string, error) { return d.Audit(t.Context(), org, f, p) })
	out := make([]agent.AuditEntry, len(all))
	for i, e := range all {
		if e.ID == "" || e.At.IsZero() || i > 0 && e.ID >= all[i-1].ID {
			t.Errorf("entry %d is %q of %s", i, e.ID, e.At)
		}
		e.ID, e.At = "", time.Time{}
		out[len(all)-1-i] = e
	}
	return out
}

func actions(entries []agent.AuditEntry) []agent.AuditAction {
	out := []agent.AuditAction{}
	for _, e := range entries {
		out = append(out, e.Action)
	}
	return out
}

func auditOfChanges(t *testing.T, d *data) {
	ctx := as(t.Context())
	sess := newSession("s1")
	sess.CreatedAt = time.Time{}
	create(t, d, sess) // nobody says on whose word: the server's, in the name of its creator
	n := userTurn(key("s2", "t1"), 0)
	n.By, n.Session.CreatedAt = admin, time.Time{}
	openTurn(t, d, n)
	settle(t, d, key("s2", "t1"), 1)
	if err := d.OpenTurn(ctx, userTurn(key("s2", "t2"), 1)); err != nil { // a turn of a session that is there leaves nothing
		t.Fatal(err)
	}
	if err := d.SetTools(ctx, org, "s1", []byte(`[]`)); err != nil {
		t.Fatal(err)
	}
	ch := agent.ModeChange{Org: org, Session: "s1", Mode: "other", Reason: "never in the log", User: "bob", Actor: agent.ActorModel, Turn: "t9", Call: "c1", Approval: "apr_1"}
	for range 2 { // one call changes the mode once
		if _, _, _, err := d.ChangeMode(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
	}
	branch := newSession("b1")
	branch.CreatedAt, branch.Parent = time.Time{}, agent.Lineage{Session: "s1"}
	if err := d.BranchSession(ctx, store.Branch{Session: branch}); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteSession(ctx, org, "s1"); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteAudit(t.Context(), agent.AuditEntry{Org: org, Action: agent.AuditKeyCreated, By: admin, Subject: "key_2", Details: map[string]string{"role": "user"}}); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	server := agent.Origin{User: "ann", Role: agent.RoleServer}
	same(t, "the log", audit(t, d, store.AuditFilter{}), []agent.AuditEntry{
		{Org: org, Action: agent.AuditSessionCreated, Session: "s1", By: server, Details: map[string]string{"mode": "general"}},
		{Org: org, Action: agent.AuditSessionCreated, Session: "s2", By: admin, Details: map[string]string{"mode": "general"}},
		{Org: org, Action: agent.AuditToolsReplaced, Session: "s1", By: admin},
		{Org: org, Action: agent.AuditModeChanged, Session: "s1", Turn: "t9", Subject: "apr_1", By: agent.Origin{User: "bob", Role: agent.RoleServer},
			Details: map[string]string{"previousMode": "general", "mode": "other", "actor": "model"}},
		{Org: org, Action: agent.AuditSessionBranched, Session: "b1", By: admin, Details: map[string]string{"mode": "general", "parentSessionId": "s1"}},
		{Org: org, Action: agent.AuditSessionErased, Session: "s1", By: admin},
		{Org: org, Action: agent.AuditKeyCreated, By: admin, Subject: "key_2", Details: map[string]string{"role": "user"}},
	})
	if other, _, err := d.Audit(t.Context(), otherOrg, store.AuditFilter{}, store.Page{}); err != nil || len(other) != 0 {
		t.Errorf("the other organisation sees %d entries (error %v)", len(other), err)
	}
}

func auditOfRefusals(t *testing.T, d *data) {
	ctx := as(t.Context())
	create(t, d, newSession("s1"))
	_ = d.CreateSession(ctx, newSession("s1"))
	_ = d.OpenTurn(ctx, userTurn(key("s1", "t1"), 0)) // it expects no session
	_ = d.OpenTurn(ctx, userTurn(key("s1", "t1"), 7)) // it expects another version
	_ = d.DeleteSession(ctx, org, "none")
	_ = d.SetTools(ctx, org, "none", nil)
	_, _, _, _ = d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "s1", Mode: agent.ModeGeneral, Reason: "no change"})
	_ = d.BranchSession(ctx, store.Branch{Session: newSession("s1")})
	_ = d.DeleteWebhook(ctx, store.WebhookKey{Org: org, Webhook: "none"})
	same(t, "the log", actions(audit(t, d, store.AuditFilter{})), []agent.AuditAction{agent.AuditSessionCreated})
}

func auditOfDecisions(t *testing.T, d *data) {
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	decided := func(n int, by agent.UserID, v agent.Verdict) agent.Step {
		return agent.Step{N: n, Kind: agent.StepDecided, FirstEvent: int64(n), At: at(n), Decided: &agent.Decided{ID: "apr_1", Call: "c1", Verdict: v, User: by}}
	}
	a := store.Append{Key: key("s1", "t1"), Steps: []agent.Step{
		decided(2, "ann", agent.Verdict{Decision: agent.DecisionApprove, Remember: true}), decided(3, "", agent.Verdict{Decision: agent.DecisionExpired})}}
	if err := d.AppendSteps(as(t.Context()), a); err != nil {
		t.Fatal(err)
	}
	if err := d.AppendSteps(as(t.Context()), a); err == nil { // it does not follow any more
		t.Error("the same decisions were taken twice")
	}
	got := audit(t, d, store.AuditFilter{Action: agent.AuditApprovalDecided})
	same(t, "decisions", got, []agent.AuditEntry{
		{Org: org, Action: agent.AuditApprovalDecided, Session: "s1", Turn: "t1", Subject: "apr_1", By: admin,
			Details: map[string]string{"decision": "approve", "remember": "true"}},
		{Org: org, Action: agent.AuditApprovalDecided, Session: "s1", Turn: "t1", Subject: "apr_1", By: agent.Origin{Role: agent.RoleServer},
			Details: map[string]string{"decision": "expired"}},
	})
}

func auditStays(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	if _, err := d.EraseOrg(as(t.Context()), org); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	got := audit(t, d, store.AuditFilter{})
	same(t, "the log", actions(got), []agent.AuditAction{agent.AuditSessionCreated, agent.AuditSessionErased, agent.AuditOrganisationErased})
	same(t, "the last entry's details", got[2].Details, map[string]string{"sessions": "1"})
}

func auditOfKeys(t *testing.T, d *data) {
	k := agent.APIKey{Org: org, ID: "0123456789abcdef", User: "bob", Role: agent.RoleUser, CreatedAt: at(1)}
	for range 2 { // the second one finds the first
		_ = d.CreateKey(as(t.Context()), k, [32]byte{1})
		if _, err := d.RevokeKey(as(t.Context()), org, k.ID, at(2)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "the log", audit(t, d, store.AuditFilter{}), []agent.AuditEntry{
		{Org: org, Action: agent.AuditKeyCreated, Subject: string(k.ID), By: admin},
		{Org: org, Action: agent.AuditKeyRevoked, Subject: string(k.ID), By: admin},
	})
}

func auditOfRetention(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	if _, _, err := d.EraseIdle(t.Context(), at(60), store.SessionKey{}, 10); err != nil {
		t.Fatal(err)
	}
	same(t, "the log", audit(t, d, store.AuditFilter{Action: agent.AuditSessionErased}), []agent.AuditEntry{{Org: org, Action: agent.AuditSessionErased,
		Session: "s1", By: agent.Origin{Role: agent.RoleServer}, Details: map[string]string{"reason": store.ErasedByRetention}}})
}

func auditList(t *testing.T, d *data) {
	write := func(minute int, session agent.SessionID, user agent.UserID, action agent.AuditAction) {
		t.Helper()
		e := agent.AuditEntry{Org: org, At: at(minute), Session: session, Action: action, By: agent.Origin{User: user, Role: agent.RoleUser}}
		if err := d.WriteAudit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		write(i, agent.SessionID([]string{"s1", "s2"}[i%2]), agent.UserID([]string{"ann", "bob", "cid"}[i%3]), agent.AuditSessionCreated)
	}
	write(6, "s1", "ann", agent.AuditSessionErased)
	for name, tt := range map[string]struct {
		f    store.AuditFilter
		want int
	}{
		"all":                     {store.AuditFilter{}, 7},
		"of a session":            {store.AuditFilter{Session: "s1"}, 4},
		"of a user":               {store.AuditFilter{User: "ann"}, 3},
		"of an action":            {store.AuditFilter{Action: agent.AuditSessionErased}, 1},
		"of both":                 {store.AuditFilter{Session: "s2", User: "ann"}, 1},
		"since, inclusive":        {store.AuditFilter{Since: at(3)}, 4},
		"until, exclusive":        {store.AuditFilter{Until: at(3)}, 3},
		"of a time":               {store.AuditFilter{Since: at(1), Until: at(4), Session: "s2"}, 2},
		"of a time before itself": {store.AuditFilter{Since: at(4), Until: at(1)}, 0},
		"of nobody":               {store.AuditFilter{User: "' OR 1=1 --"}, 0},
	} {
		if got := audit(t, d, tt.f); len(got) != tt.want {
			t.Errorf("%s: %d entries, want %d", name, len(got), tt.want)
		}
	}
	_, _, err := d.Audit(t.Context(), org, store.AuditFilter{}, store.Page{Cursor: store.Cursor("sessions", "1", "s1")})
	wantKind(t, err, agent.KindInvalidRequest)
}

func auditTrim(t *testing.T, d *data) {
	ctx := t.Context()
	for i := range 5 {
		if err := d.WriteAudit(ctx, agent.AuditEntry{Org: org, At: at(i), Action: agent.AuditKeyCreated, By: admin}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := d.TrimAudit(ctx, time.Now().Add(-time.Hour), "", 10); err == nil {
		t.Error("the last day of the log was to go, and nobody refused")
	}
	if got := audit(t, d, store.AuditFilter{}); len(got) != 5 {
		t.Fatalf("%d entries are left, want all 5", len(got))
	}
	for i, want := range []int{2, 1, 0} {
		n, whose, err := d.TrimAudit(ctx, at(3), "", 2)
		if err != nil || n != want || whose != org {
			t.Errorf("look %d trimmed %d entries of %q (error %v), want %d", i, n, whose, err, want)
		}
	}
	if n, whose, err := d.TrimAudit(ctx, at(3), org, 2); err != nil || n != 0 || whose != "" {
		t.Errorf("behind the last organisation: %d entries of %q (error %v)", n, whose, err)
	}
	same(t, "what is left", actions(audit(t, d, store.AuditFilter{})),
		[]agent.AuditAction{agent.AuditKeyCreated, agent.AuditKeyCreated, agent.AuditTrimmed, agent.AuditTrimmed})
}
