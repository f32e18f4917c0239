package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func webhookTests() []test {
	return []test{
		{"CreatedReadAndDeleted", webhookLife},
		{"SecretsRotate", webhookRotation},
		{"TransitionsLeaveDeliveries", webhookMessages},
		{"OnlyWhoAskedIsTold", webhookSubscriptions},
		{"RefusedTransitionsTellNobody", webhookRefusals},
		{"ADeliveryIsClaimedOnceUntilItsLeaseIsOver", webhookClaims},
		{"ManyClaimDifferentDeliveries", webhookCrowd},
		{"AGoneReceiverIsGivenUp", webhookGone},
		{"DeliveriesGoWithTheirSession", webhookErase},
		{"OldDeliveriesAreSwept", webhookSweep},
	}
}

func newWebhook(id agent.WebhookID, events ...agent.WebhookEvent) agent.Webhook {
	if len(events) == 0 {
		events = agent.WebhookEvents()
	}
	return agent.Webhook{Org: org, ID: id, URL: "https://example.com/hook", Description: "ours", Events: events,
		Secret: agent.WebhookSecret("secret-1"), CreatedBy: "ann", CreatedAt: start}
}

func hook(id agent.WebhookID) store.WebhookKey { return store.WebhookKey{Org: org, Webhook: id} }

func createWebhook(t *testing.T, d *data, w agent.Webhook) {
	t.Helper()
	if err := d.CreateWebhook(as(t.Context()), w); err != nil {
		t.Fatal(err)
	}
}

// deliveries returns all of a webhook, oldest first.
func deliveries(t *testing.T, d *data, id agent.WebhookID) []agent.WebhookDelivery {
	t.Helper()
	all, _ := collect(t, 2, func(p store.Page) ([]agent.WebhookDelivery, string, error) {
		return d.Deliveries(t.Context(), hook(id), p)
	})
	slices.Reverse(all)
	return all
}

func webhookLife(t *testing.T, d *data) {
	ctx := as(t.Context())
	w := newWebhook("wh_1")
	createWebhook(t, d, w)
	d.reopen(t)
	got, err := d.Webhook(ctx, hook("wh_1"))
	if err != nil {
		t.Fatal(err)
	}
	w.CreatedAt = w.CreatedAt.UTC()
	same(t, "the webhook", got, w)
	if s := fmt.Sprintf("%v %+v %#v", got.Secret, got, got); slices.Contains([]byte(s), 0) || len(s) == 0 || containsSecret(s) {
		t.Errorf("the secret shows: %s", s)
	}
	for _, k := range []store.WebhookKey{hook("wh_2"), {Org: otherOrg, Webhook: "wh_1"}} {
		_, err := d.Webhook(ctx, k)
		wantKind(t, err, agent.KindNotFound)
		wantKind(t, d.DeleteWebhook(ctx, k), agent.KindNotFound)
		_, _, err = d.Deliveries(ctx, k, store.Page{})
		wantKind(t, err, agent.KindNotFound)
		_, err = d.TestWebhook(ctx, k)
		wantKind(t, err, agent.KindNotFound)
		_, err = d.RotateWebhook(ctx, k, agent.WebhookSecret("x"), at(0))
		wantKind(t, err, agent.KindNotFound)
	}
	if _, err := d.TestWebhook(ctx, hook("wh_1")); err != nil {
		t.Fatal(err)
	}
	if all := deliveries(t, d, "wh_1"); len(all) != 1 || all[0].Event != agent.WebhookTest || all[0].Session != "" {
		t.Errorf("the test left %+v", all)
	}
	if err := d.DeleteWebhook(ctx, hook("wh_1")); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Webhooks(ctx, org); err != nil || len(all) != 0 {
		t.Errorf("%d webhooks are left (error %v)", len(all), err)
	}
	same(t, "the log", actions(audit(t, d, store.AuditFilter{})), []agent.AuditAction{agent.AuditWebhookCreated, agent.AuditWebhookDeleted})
	for i := range store.MaxWebhooks {
		createWebhook(t, d, newWebhook(agent.WebhookID(fmt.Sprint("wh_", i))))
	}
	wantKind(t, d.CreateWebhook(ctx, newWebhook("wh_more")), agent.KindLimitReached)
}

func containsSecret(s string) bool {
	for i := range s {
		if len(s)-i >= 8 && s[i:i+8] == "secret-1" {
			return true
		}
	}
	return false
}

func webhookRotation(t *testing.T, d *data) {
	createWebhook(t, d, newWebhook("wh_1"))
	got, err := d.RotateWebhook(as(t.Context()), hook("wh_1"), agent.WebhookSecret("secret-2"), at(60))
	if err != nil || string(got.Secret) != "secret-2" || string(got.Previous) != "secret-1" || !got.PreviousUntil.Equal(at(60)) {
		t.Errorf("got %q before %q until %s (error %v)", string(got.Secret), string(got.Previous), got.PreviousUntil, err)
	}
}

func webhookMessages(t *testing.T, d *data) {
	ctx := t.Context()
	createWebhook(t, d, newWebhook("wh_1"))
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	step := func(n int, s agent.Step) []agent.Step {
		s.N, s.FirstEvent, s.At = n, int64(n), at(n)
		return []agent.Step{s}
	}
	appendSteps(t, d, store.Append{Key: key("s1", "t1"), State: agent.TurnWaiting, Steps: step(2, agent.Step{Kind: agent.StepWaiting, Waiting: &agent.Delivery{}})})
	// It waits on, after one of two decisions: nothing new.
	appendSteps(t, d, store.Append{Key: key("s1", "t1"), State: agent.TurnWaiting, From: []agent.TurnState{agent.TurnWaiting},
		Steps: step(3, agent.Step{Kind: agent.StepWaiting, Waiting: &agent.Delivery{}})})
	if _, _, _, err := d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "s1", Mode: "other", Reason: "r", User: "ann", Actor: agent.ActorUser, At: at(3)}); err != nil {
		t.Fatal(err)
	}
	appendSteps(t, d, store.Append{Key: key("s1", "t1"), State: agent.TurnFailed, Fault: &agent.Fault{Kind: agent.KindTurnExpired, Message: "never in a delivery"},
		Steps: step(4, agent.Step{Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnFailed}})})
	n := userTurn(key("s2", "t1"), 0) // it is over when it is written
	n.Turn.State = agent.TurnCompleted
	n.Steps = append(n.Steps, step(2, agent.Step{Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnCompleted}})...)
	n.Steps[1].At = at(9)
	openTurn(t, d, n)
	d.reopen(t)
	var got []agent.WebhookDelivery
	for _, v := range deliveries(t, d, "wh_1") {
		if v.Message == "" || v.Due.IsZero() {
			t.Errorf("delivery %+v", v)
		}
		v.Message, v.Due = "", time.Time{}
		got = append(got, v)
	}
	pending := func(v agent.WebhookDelivery) agent.WebhookDelivery {
		v.Webhook, v.Outcome, v.At = "wh_1", agent.DeliveryPending, v.At.UTC()
		return v
	}
	same(t, "deliveries", got, []agent.WebhookDelivery{
		pending(agent.WebhookDelivery{Event: agent.WebhookTurnWaiting, At: at(2), Session: "s1", Turn: "t1", Mode: "general", State: agent.TurnWaiting}),
		pending(agent.WebhookDelivery{Event: agent.WebhookModeChanged, At: at(3), Session: "s1", Mode: "other", PreviousMode: "general", Actor: agent.ActorUser}),
		pending(agent.WebhookDelivery{Event: agent.WebhookTurnFailed, At: at(4), Session: "s1", Turn: "t1", Mode: "other", State: agent.TurnFailed, Code: agent.KindTurnExpired}),
		pending(agent.WebhookDelivery{Event: agent.WebhookTurnCompleted, At: at(9), Session: "s2", Turn: "t1", Mode: "general", State: agent.TurnCompleted}),
	})
}

// told leaves a completed turn in a session of its own.
func told(t *testing.T, d *data, id agent.SessionID) {
	t.Helper()
	openTurn(t, d, userTurn(key(id, "t1"), 0))
	settle(t, d, key(id, "t1"), 1)
}

func webhookSubscriptions(t *testing.T, d *data) {
	createWebhook(t, d, newWebhook("wh_all"))
	createWebhook(t, d, newWebhook("wh_done", agent.WebhookTurnCompleted))
	createWebhook(t, d, newWebhook("wh_failed", agent.WebhookTurnFailed, agent.WebhookModeChanged))
	other := newWebhook("wh_other")
	other.Org = otherOrg
	createWebhook(t, d, other)
	told(t, d, "s1")
	all, done := deliveries(t, d, "wh_all"), deliveries(t, d, "wh_done")
	if len(all) != 1 || len(done) != 1 || all[0].Message != done[0].Message {
		t.Errorf("told %+v and %+v, want both of the same message", all, done)
	}
	if got := deliveries(t, d, "wh_failed"); len(got) != 0 {
		t.Errorf("who did not ask was told %+v", got)
	}
	if got, _, err := d.Deliveries(t.Context(), store.WebhookKey{Org: otherOrg, Webhook: "wh_other"}, store.Page{}); err != nil || len(got) != 0 {
		t.Errorf("the other organisation was told %+v (error %v)", got, err)
	}
}

func webhookRefusals(t *testing.T, d *data) {
	createWebhook(t, d, newWebhook("wh_1"))
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	late := store.Append{Key: key("s1", "t1"), State: agent.TurnCompleted, Steps: []agent.Step{
		{N: 7, Kind: agent.StepSettled, FirstEvent: 7, At: at(5), Settled: &agent.Settled{State: agent.TurnCompleted}}}}
	if err := d.AppendSteps(t.Context(), late); err == nil {
		t.Fatal("steps that do not follow were taken")
	}
	if got := deliveries(t, d, "wh_1"); len(got) != 0 {
		t.Errorf("told of what was refused: %+v", got)
	}
}

func webhookClaims(t *testing.T, d *data) {
	ctx := t.Context()
	createWebhook(t, d, newWebhook("wh_1"))
	if due, err := d.DueWebhooks(ctx); err != nil || len(due) != 0 {
		t.Errorf("due before anything happened: %v (error %v)", due, err)
	}
	told(t, d, "s1")
	due, err := d.DueWebhooks(ctx)
	same(t, "due webhooks", due, []store.WebhookKey{hook("wh_1")})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(lease time.Duration, want int) []agent.WebhookDelivery {
		t.Helper()
		w, got, err := d.ClaimDeliveries(ctx, hook("wh_1"), lease, 10)
		if err != nil || len(got) != want || w.ID != "wh_1" || string(w.Secret) != "secret-1" {
			t.Fatalf("claimed %d deliveries of %s (error %v), want %d", len(got), w.ID, err, want)
		}
		return got
	}
	lost := claim(time.Microsecond, 1)[0] // and whoever has it dies
	time.Sleep(2 * time.Millisecond)      // the lease is by the keeper's clock
	again := claim(time.Hour, 1)[0]
	if again.Message != lost.Message || again.Attempts != 2 {
		t.Errorf("claimed %s for attempt %d, want %s for attempt 2", again.Message, again.Attempts, lost.Message)
	}
	claim(time.Hour, 0)
	settle := func(a store.Attempt) agent.WebhookDelivery {
		t.Helper()
		a.Key, a.Message, a.At = hook("wh_1"), again.Message, start
		if err := d.SettleDelivery(ctx, a); err != nil {
			t.Fatal(err)
		}
		return deliveries(t, d, "wh_1")[0]
	}
	if got := settle(store.Attempt{Number: 1, Outcome: agent.DeliveryDelivered, Status: 200}); got.Outcome != agent.DeliveryPending {
		t.Errorf("an attempt that was given up settled it: %+v", got)
	}
	if got := settle(store.Attempt{Number: 2, Outcome: agent.DeliveryPending, Status: 503, Problem: "answered 503"}); got.Outcome != agent.DeliveryPending || got.Status != 503 || got.Problem != "answered 503" {
		t.Errorf("after a failure: %+v", got)
	}
	time.Sleep(2 * time.Millisecond)
	if third := claim(time.Hour, 1)[0]; third.Message != lost.Message || third.Attempts != 3 {
		t.Errorf("claimed %+v", third)
	}
	if got := settle(store.Attempt{Number: 3, Outcome: agent.DeliveryDelivered, Status: 204}); got.Outcome != agent.DeliveryDelivered || got.Status != 204 || !got.LastAt.Equal(start) {
		t.Errorf("after success: %+v", got)
	}
	if due, err := d.DueWebhooks(ctx); err != nil || len(due) != 0 {
		t.Errorf("due after everything was delivered: %v (error %v)", due, err)
	}
}

func webhookCrowd(t *testing.T, d *data) {
	createWebhook(t, d, newWebhook("wh_1"))
	const n = 20
	for i := range n {
		told(t, d, agent.SessionID(fmt.Sprint("s", i)))
	}
	var mu sync.Mutex
	claimed := map[agent.MessageID]int{}
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for range 50 {
				_, got, err := d.ClaimDeliveries(t.Context(), hook("wh_1"), time.Hour, 3)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, v := range got {
					claimed[v.Message]++
				}
				done := len(claimed) == n
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	work.Wait()
	if len(claimed) != n {
		t.Errorf("%d deliveries were claimed, want %d", len(claimed), n)
	}
	for id, times := range claimed {
		if times != 1 {
			t.Errorf("%s was claimed %d times", id, times)
		}
	}
}

func webhookGone(t *testing.T, d *data) {
	ctx := t.Context()
	createWebhook(t, d, newWebhook("wh_1"))
	told(t, d, "s1")
	for range 2 {
		if err := d.DisableWebhook(ctx, hook("wh_1")); err != nil {
			t.Fatal(err)
		}
	}
	told(t, d, "s2")
	if got := deliveries(t, d, "wh_1"); len(got) != 1 || got[0].Outcome != agent.DeliveryFailed {
		t.Errorf("left %+v, want what was there as failed", got)
	}
	if w, err := d.Webhook(ctx, hook("wh_1")); err != nil || w.DisabledAt.IsZero() {
		t.Errorf("it is in use (error %v)", err)
	}
	_, err := d.TestWebhook(ctx, hook("wh_1"))
	wantKind(t, err, agent.KindInvalidRequest)
	same(t, "the log", actions(audit(t, d, store.AuditFilter{Action: agent.AuditWebhookDisabled})), []agent.AuditAction{agent.AuditWebhookDisabled})
}

func webhookErase(t *testing.T, d *data) {
	createWebhook(t, d, newWebhook("wh_1"))
	told(t, d, "s1")
	told(t, d, "s2")
	if err := d.DeleteSession(t.Context(), org, "s1"); err != nil {
		t.Fatal(err)
	}
	if got := deliveries(t, d, "wh_1"); len(got) != 1 || got[0].Session != "s2" {
		t.Errorf("left %+v, want the one of s2", got)
	}
}

func webhookSweep(t *testing.T, d *data) {
	ctx := t.Context()
	createWebhook(t, d, newWebhook("wh_1"))
	for i := range 3 {
		told(t, d, agent.SessionID(fmt.Sprint("s", i)))
	}
	_, claimed, err := d.ClaimDeliveries(ctx, hook("wh_1"), time.Hour, 2)
	if err != nil || len(claimed) != 2 {
		t.Fatal(len(claimed), err)
	}
	for _, v := range claimed {
		if err := d.SettleDelivery(ctx, store.Attempt{Key: hook("wh_1"), Message: v.Message, Number: 1, Outcome: agent.DeliveryDelivered}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.SweepDeliveries(ctx, hook("wh_1"), at(4), 10); err != nil || n != 0 {
		t.Errorf("swept %d (error %v), though none is old", n, err)
	}
	if n, err := d.SweepDeliveries(ctx, hook("wh_1"), at(60), 1); err != nil || n != 1 {
		t.Errorf("swept %d (error %v), want 1", n, err)
	}
	if n, err := d.SweepDeliveries(ctx, hook("wh_1"), at(60), 10); err != nil || n != 1 {
		t.Errorf("swept %d (error %v), want the other one", n, err)
	}
	if got := deliveries(t, d, "wh_1"); len(got) != 1 || got[0].Outcome != agent.DeliveryPending {
		t.Errorf("left %+v, want the pending one", got)
	}
	all, err := d.EveryWebhook(ctx)
	same(t, "every webhook", all, []store.WebhookKey{hook("wh_1")})
	if err != nil {
		t.Fatal(err)
	}
}
