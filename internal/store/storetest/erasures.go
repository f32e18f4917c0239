package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func erasureTests() []test {
	return []test{
		{"AnAcceptedErasureIsKeptUntilItIsDone", erasureIsKept},
		{"AUserIsForgottenInTheSessionsOfOthers", forgetUser},
		{"AnOrganisationGoesWithItsWebhooks", eraseWebhooks},
		{"KeysEndWhenTheErasureIsAccepted", eraseKeys},
	}
}

func erasureIsKept(t *testing.T, d *data) {
	ctx := as(t.Context())
	e := store.Erasure{Org: org, ID: store.NewErasureID(time.Now()), User: "bob", CreatedAt: time.Now()}
	if err := d.AcceptErasure(ctx, e); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	got, found, err := d.ClaimErasure(ctx, time.Nanosecond)
	if err != nil || !found || got.ID != e.ID || got.User != "bob" || !got.FinishedAt.IsZero() {
		t.Fatalf("found %v %+v (error %v)", found, got, err)
	}
	got.After = "s7"
	if err := d.MoveErasure(ctx, got, 3, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	if got, found, err = d.ClaimErasure(ctx, time.Nanosecond); err != nil || !found || got.After != "s7" || got.Sessions != 3 {
		t.Fatalf("found %v %+v (error %v)", found, got, err)
	}
	for range 2 { // a second one finds it done
		if err := d.FinishErasure(t.Context(), got); err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := d.ClaimErasure(ctx, time.Minute); err != nil || found {
		t.Errorf("there is still something to do (error %v)", err)
	}
	if got, err = d.Erasure(ctx, org, e.ID); err != nil || got.FinishedAt.IsZero() || got.Sessions != 3 {
		t.Errorf("got %+v (error %v)", got, err)
	}
	_, err = d.Erasure(ctx, otherOrg, e.ID)
	wantKind(t, err, agent.KindNotFound)
	entries := audit(t, d, store.AuditFilter{})
	same(t, "the log", entries, []agent.AuditEntry{
		{Org: org, Action: agent.AuditUserErasing, Subject: "bob", By: admin, Details: map[string]string{"erasureId": e.ID}},
		{Org: org, Action: agent.AuditUserErased, Subject: "bob", By: agent.Origin{Role: agent.RoleServer}, Details: map[string]string{"erasureId": e.ID, "sessions": "3"}},
	})
	if err := d.SweepErasures(ctx, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	_, err = d.Erasure(ctx, org, e.ID)
	wantKind(t, err, agent.KindNotFound)
}

func forgetUser(t *testing.T, d *data) {
	ctx := t.Context()
	const name = agent.UserID(`bob "b" <o'b>`)
	n := userTurn(key("s1", "t1"), 0)
	n.Turn.User = name
	openTurn(t, d, n)
	appendSteps(t, d, store.Append{Key: key("s1", "t1"), Steps: []agent.Step{
		{N: 2, Kind: agent.StepDecided, FirstEvent: 2, At: at(2), Decided: &agent.Decided{ID: "apr_1", Call: "c1", Verdict: agent.Verdict{Decision: agent.DecisionDeny}, User: name}},
		{N: 3, Kind: agent.StepDecided, FirstEvent: 3, At: at(2), Decided: &agent.Decided{ID: "apr_2", Call: "c2", Verdict: agent.Verdict{Decision: agent.DecisionDeny}, User: "ann"}},
	}})
	if _, _, _, err := d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "s1", Mode: "other", Reason: "r", User: name, Actor: agent.ActorUser}); err != nil {
		t.Fatal(err)
	}
	if err := d.ForgetUser(ctx, org, "s1", name); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	if got := readTurn(t, d, key("s1", "t1")); got.User != agent.ErasedUser {
		t.Errorf("the turn is of %q", got.User)
	}
	if got := history(t, d, "s1"); len(got) != 1 || got[0].User != agent.ErasedUser {
		t.Errorf("the history is %+v", got)
	}
	steps, err := d.Steps(ctx, key("s1", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	if steps[1].Decided.User != agent.ErasedUser || steps[2].Decided.User != "ann" || steps[1].Decided.ID != "apr_1" {
		t.Errorf("decided by %q and %q", steps[1].Decided.User, steps[2].Decided.User)
	}
	rest, err := d.SessionsAfter(ctx, org, "", 10)
	same(t, "the sessions", rest, []store.Owned{{Session: "s1", User: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
}

func eraseWebhooks(t *testing.T, d *data) {
	ctx := t.Context()
	for _, user := range []agent.UserID{"ann", "bob"} {
		w := newWebhook(agent.WebhookID("wh_" + user))
		w.CreatedBy = user
		if err := d.CreateWebhook(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	finish := func(user agent.UserID) {
		t.Helper()
		e := store.Erasure{Org: org, ID: store.NewErasureID(time.Now()), User: user, CreatedAt: time.Now()}
		if err := d.AcceptErasure(ctx, e); err != nil {
			t.Fatal(err)
		}
		if err := d.FinishErasure(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	finish("bob")
	all, err := d.Webhooks(ctx, org)
	if err != nil || len(all) != 2 || all[0].CreatedBy != "ann" || all[1].CreatedBy != agent.ErasedUser {
		t.Errorf("webhooks after the user: %+v (error %v)", all, err)
	}
	finish("")
	if all, err := d.Webhooks(ctx, org); err != nil || len(all) != 0 {
		t.Errorf("%d webhooks after the organisation (error %v)", len(all), err)
	}
}

func eraseKeys(t *testing.T, d *data) {
	key := func(id agent.KeyID, of agent.OrgID, user, by agent.UserID) {
		t.Helper()
		k := newKey(id)
		k.Org, k.User, k.CreatedBy = of, user, by
		createKey(t, d, k)
	}
	key("hers", org, "ann", "bob")
	key("his", org, "bob", "ann")
	key("elsewhere", otherOrg, "bob", "bob")
	accept := func(user agent.UserID) store.Erasure {
		t.Helper()
		e := store.Erasure{Org: org, ID: store.NewErasureID(time.Now()), User: user, CreatedAt: time.Now()}
		if err := d.AcceptErasure(as(t.Context()), e); err != nil {
			t.Fatal(err)
		}
		d.reopen(t) // the process dies before it does anything else
		return e
	}
	revoked := func(want ...agent.KeyID) {
		t.Helper()
		for _, id := range []agent.KeyID{"hers", "his", "again", "elsewhere"} {
			if k, _, err := d.Key(t.Context(), id); err == nil && k.Revoked() != slices.Contains(want, id) {
				t.Errorf("key %s is %+v", id, k)
			}
		}
	}
	finish := func(e store.Erasure) {
		t.Helper()
		if err := d.FinishErasure(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}

	e := accept("bob")
	revoked("his")
	key("again", org, "bob", "ann") // he is back before it is done
	finish(e)
	revoked("his")
	if k := readKey(t, d, "his"); k.User != agent.ErasedUser || k.Name != "" || k.CreatedBy != "ann" {
		t.Errorf("his key says %+v", k)
	}
	if k := readKey(t, d, "hers"); k.User != "ann" || k.CreatedBy != agent.ErasedUser {
		t.Errorf("a key that he made says %+v", k)
	}

	e = accept("")
	revoked("his", "hers", "again")
	finish(e)
	for _, id := range []agent.KeyID{"his", "hers", "again"} {
		if k := readKey(t, d, id); k.User != agent.ErasedUser || k.CreatedBy != agent.ErasedUser || k.Name != "" {
			t.Errorf("a key of the organisation says %+v", k)
		}
	}
	if k := readKey(t, d, "elsewhere"); k.Revoked() || k.User != "bob" || k.CreatedBy != "bob" {
		t.Errorf("another organisation's key says %+v", k)
	}
	if any, err := d.AnyKey(t.Context()); !any || err != nil {
		t.Errorf("authentication would be off: %v (error %v)", any, err)
	}
	ended := []string{}
	for _, e := range audit(t, d, store.AuditFilter{Action: agent.AuditKeyRevoked}) {
		if e.By != admin {
			t.Errorf("by %+v", e.By)
		}
		ended = append(ended, e.Subject)
	}
	slices.Sort(ended)
	same(t, "the keys that the log has as revoked", ended, []string{"again", "hers", "his"})
}
