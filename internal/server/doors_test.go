package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/webhook"
)

// fakeDoors has one entry, one erasure and one webhook of everybody, and remembers nothing.
type fakeDoors struct{}

func (fakeDoors) Audit(_ context.Context, org agent.OrgID, _ store.AuditFilter, _ store.Page) ([]agent.AuditEntry, string, error) {
	return []agent.AuditEntry{{Org: org, ID: "aud_1", At: noon, Action: agent.AuditSessionCreated, By: agent.Origin{Role: agent.RoleServer}}}, "", nil
}

func (fakeDoors) EraseUser(_ context.Context, by agent.Caller, user agent.UserID) (store.Erasure, error) {
	return store.Erasure{Org: by.Org, ID: "ers_1", User: user, CreatedAt: noon}, nil
}

func (fakeDoors) EraseOrganisation(_ context.Context, by agent.Caller) (store.Erasure, error) {
	return store.Erasure{Org: by.Org, ID: "ers_1", CreatedAt: noon}, nil
}

func (fakeDoors) Erasure(_ context.Context, by agent.Caller, id string) (store.Erasure, error) {
	return store.Erasure{Org: by.Org, ID: id, CreatedAt: noon, FinishedAt: noon}, nil
}

// fakeWebhooks is a type of its own since the doors share names of methods.
type fakeWebhooks struct{}

func fakeWebhook(by agent.Caller, id agent.WebhookID) agent.Webhook {
	return agent.Webhook{Org: by.Org, ID: id, URL: "https://example.com/", Events: agent.WebhookEvents(), Secret: agent.WebhookSecret("s"), CreatedAt: noon}
}

func (fakeWebhooks) Create(_ context.Context, by agent.Caller, _ contract.CreateWebhook) (agent.Webhook, string, error) {
	return fakeWebhook(by, "wh_1"), "whsec_shown", nil
}

func (fakeWebhooks) Get(_ context.Context, by agent.Caller, id agent.WebhookID) (agent.Webhook, error) {
	return fakeWebhook(by, id), nil
}

func (fakeWebhooks) List(_ context.Context, by agent.Caller) ([]agent.Webhook, error) {
	return []agent.Webhook{fakeWebhook(by, "wh_1")}, nil
}

func (fakeWebhooks) Delete(context.Context, agent.Caller, agent.WebhookID) error { return nil }

func (fakeWebhooks) Rotate(_ context.Context, by agent.Caller, id agent.WebhookID) (agent.Webhook, string, error) {
	return fakeWebhook(by, id), "whsec_shown", nil
}

func (fakeWebhooks) Test(_ context.Context, _ agent.Caller, id agent.WebhookID) (agent.WebhookDelivery, error) {
	return agent.WebhookDelivery{Webhook: id, Message: "msg_1", Event: agent.WebhookTest, At: noon, Outcome: agent.DeliveryPending}, nil
}

func (fakeWebhooks) Deliveries(_ context.Context, _ agent.Caller, id agent.WebhookID, _ store.Page) ([]agent.WebhookDelivery, string, error) {
	return []agent.WebhookDelivery{{Webhook: id, Message: "msg_1", Event: agent.WebhookTest, At: noon, Outcome: agent.DeliveryPending}}, "", nil
}

// Who did what stands in the log with the request and the address from which it came, and
// no word of what was said.
func TestAudit_NamesWhoDidIt(t *testing.T) {
	w := newWhole(t)
	w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","systemPrompt":"the-secret"}`, "X-Request-Id", "req-7").wantStatus(t, 201)
	w.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s2","turnId":"t1","instruction":"the-secret"}`, "X-Request-Id", "req-8").wantStatus(t, 200)
	w.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s2","turnId":"t2","instruction":"the-secret"}`).wantStatus(t, 200)
	w.do(t, "PUT", "/v1/sessions/s1/mode", `{"mode":"ddr_authoring","reason":"the-secret"}`).wantStatus(t, 200)
	w.do(t, "DELETE", "/v1/sessions/s1", "").wantStatus(t, 204)
	a := w.do(t, "GET", "/v1/audit", "")
	a.wantStatus(t, 200)
	if strings.Contains(a.Body.String(), "the-secret") {
		t.Errorf("the log has contents: %s", a.Body)
	}
	var list List[AuditEntry]
	if err := json.Unmarshal(a.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Data {
		got = append(got, string(e.Action)+" "+string(e.SessionID))
		if e.User != "local" || e.Role != agent.RoleAdmin || e.Address == "" || e.RequestID == "" {
			t.Errorf("entry %+v", e)
		}
	}
	if want := "session.erased s1|mode.changed s1|session.created s2|session.created s1"; strings.Join(got, "|") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
	}
	if first := list.Data[3]; first.RequestID != "req-7" || list.Data[2].RequestID != "req-8" {
		t.Errorf("requests %q and %q", first.RequestID, list.Data[2].RequestID)
	}
	w.do(t, "GET", "/v1/audit?action=mode.changed", "").wantStatus(t, 200)
	for _, query := range []string{"?action=nonsense", "?since=yesterday", "?until=1", "?sessionId=s1", "?limit=0", "?cursor=x"} {
		w.do(t, "GET", "/v1/audit"+query, "").want(t, agent.KindInvalidRequest)
	}
}

func TestEraseOrganisation_AsksForItsName(t *testing.T) {
	w := newWhole(t)
	w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`).wantStatus(t, 201)
	for _, query := range []string{"", "?confirm=", "?confirm=acme", "?confirm=LOCAL"} {
		w.do(t, "DELETE", "/v1/organisation"+query, "").want(t, agent.KindInvalidRequest)
	}
	w.do(t, "GET", "/v1/sessions/s1", "").wantStatus(t, 200)
	a := w.do(t, "DELETE", "/v1/organisation?confirm=local", "")
	a.wantStatus(t, 202)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		e := w.do(t, "GET", a.Header().Get("Location"), "")
		e.wantStatus(t, 200)
		if strings.Contains(e.Body.String(), `"state":"finished"`) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("not finished: %s", e.Body)
		}
	}
	w.do(t, "GET", "/v1/sessions/s1", "").want(t, agent.KindNotFound)
	w.do(t, "GET", "/v1/erasures/none", "").want(t, agent.KindNotFound)
}

// The secret is in the answer that makes it, and nowhere else.
func TestWebhooks_ShowTheirSecretOnce(t *testing.T) {
	w := newWhole(t)
	a := w.do(t, "POST", "/v1/webhooks", `{"url":"https://example.com/hook","events":["turn.failed","turn.completed","turn.failed"],"description":"ours"}`)
	a.wantStatus(t, 201)
	var hook Webhook
	if err := json.Unmarshal(a.Body.Bytes(), &hook); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hook.Secret, "whsec_") || len(hook.Events) != 2 {
		t.Errorf("got %+v", hook)
	}
	at := a.Header().Get("Location")
	for _, path := range []string{at, "/v1/webhooks", at + "/deliveries", "/v1/audit"} {
		b := w.do(t, "GET", path, "")
		b.wantStatus(t, 200)
		if strings.Contains(b.Body.String(), "whsec_") || strings.Contains(b.Body.String(), strings.TrimPrefix(hook.Secret, "whsec_")) {
			t.Errorf("%s shows the secret: %s", path, b.Body)
		}
	}
	if b := w.do(t, "POST", at+"/rotate", ""); !strings.Contains(b.Body.String(), "whsec_") || strings.Contains(b.Body.String(), hook.Secret) {
		t.Errorf("rotated: %s", b.Body)
	}
	w.do(t, "POST", at+"/test", "").wantStatus(t, 202)
	for _, body := range []string{
		`{"url":"http://example.com/","events":["turn.failed"]}`, `{"url":"https://127.0.0.1/","events":["turn.failed"]}`,
		`{"url":"https://169.254.169.254/","events":["turn.failed"]}`, `{"url":"file:///etc/passwd","events":["turn.failed"]}`,
		`{"url":"https://example.com/","events":[]}`, `{"url":"https://example.com/","events":["webhook.test"]}`,
		`{"url":"https://example.com/"}`, `{"events":["turn.failed"]}`, `{"url":"https://example.com/","events":["turn.failed"],"secret":"mine"}`,
	} {
		w.do(t, "POST", "/v1/webhooks", body).want(t, agent.KindInvalidRequest)
	}
	w.do(t, "DELETE", at, "").wantStatus(t, 204)
	w.do(t, "GET", at, "").want(t, agent.KindNotFound)
}

func TestDoors_AreForAdministrators(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = keys{} })
	for _, rt := range routes() {
		if rt.class != admin {
			continue
		}
		r.do(t, rt.method, target(rt), "", "Authorization", "Bearer operator-key").want(t, agent.KindForbidden)
	}
}

// realWebhooks are webhooks in a store, to public addresses only.
func realWebhooks(registry webhook.Registry) Webhooks {
	return webhook.New(registry, outbound.Policy{})
}
