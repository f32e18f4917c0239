package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var admin = agent.Caller{Org: "acme", User: "ann", Role: agent.RoleAdmin}

// received is a message as it came.
type received struct {
	header http.Header
	body   string
}

// rig is a store, a receiver, and a deliverer between them.
type rig struct {
	t        *testing.T
	store    *sqlite.Store
	webhooks *Webhooks
	receiver *httptest.Server
	policy   outbound.Policy
	hook     agent.Webhook
	secret   string

	mu     sync.Mutex // guards what follows
	answer func(n int, w http.ResponseWriter, r *http.Request)
	got    []received
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, answer: func(int, http.ResponseWriter, *http.Request) {}}
	allow, err := outbound.ParseAllowlist([]string{"127.0.0.1/32"})
	if err != nil {
		t.Fatal(err)
	}
	r.policy.Allow = allow
	if r.store, err = sqlite.Open(t.Context(), sqlitetest.File(t), nil); err != nil {
		t.Fatal(err)
	}
	r.receiver = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(func() {
		r.receiver.Close()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	r.webhooks = New(r.store, r.policy)
	r.hook, r.secret, err = r.webhooks.Create(t.Context(), admin, contract.CreateWebhook{URL: r.receiver.URL + "/hook", Events: agent.WebhookEvents()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.got = append(r.got, received{req.Header.Clone(), string(body)})
	n, answer := len(r.got), r.answer
	r.mu.Unlock()
	answer(n, w, req)
}

// answers changes what the receiver does from now on.
func (r *rig) answers(answer func(n int, w http.ResponseWriter, req *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *rig) arrived() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received{}, r.got...)
}

// deliver runs a deliverer until the test ends, or stop is called.
func (r *rig) deliver(change ...func(*Config)) (stop func()) {
	c := Config{Queue: r.store, Log: slog.New(slog.DiscardHandler), Policy: r.policy, Every: 5 * time.Millisecond,
		Backoff: func(int64) time.Duration { return 10 * time.Millisecond }}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { NewDeliverer(c).Run(ctx) })
	stop = func() { cancel(); work.Wait() }
	r.t.Cleanup(stop)
	return stop
}

// completes leaves a completed turn in the store.
func (r *rig) completes(session agent.SessionID) {
	r.t.Helper()
	now := time.Now()
	err := r.store.OpenTurn(r.t.Context(), store.NewTurn{
		Session: &agent.Session{Org: "acme", ID: session, CreatedBy: "ann", Mode: agent.ModeGeneral, Concurrency: agent.ConcurrencyReject, CreatedAt: now},
		Turn: agent.Turn{Key: agent.TurnKey{Org: "acme", Session: session, Turn: "t1"}, User: "ann", Mode: agent.ModeGeneral,
			State: agent.TurnCompleted, Request: json.RawMessage(`"the-secret"`), CreatedAt: now},
		Steps: []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, At: now},
			{N: 2, Kind: agent.StepSettled, FirstEvent: 2, At: now, Settled: &agent.Settled{State: agent.TurnCompleted, Response: json.RawMessage(`"the-secret"`)}}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// outcome waits until the newest delivery is as wanted, and returns it.
func (r *rig) outcome(what string, is func(agent.WebhookDelivery) bool) agent.WebhookDelivery {
	r.t.Helper()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all, _, err := r.webhooks.Deliveries(r.t.Context(), admin, r.hook.ID, store.Page{})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(all) > 0 && is(all[0]) {
			return all[0]
		}
		if time.Now().After(until) {
			r.t.Fatalf("%s: there is %+v", what, all)
		}
	}
}

func delivered(d agent.WebhookDelivery) bool { return d.Outcome == agent.DeliveryDelivered }
func failed(d agent.WebhookDelivery) bool    { return d.Outcome == agent.DeliveryFailed }

// The library of Standard Webhooks takes what is sent. It has ids, and no contents.
func TestDeliverer_SendsWhatStandardWebhooksTakes(t *testing.T) {
	r := newRig(t)
	r.deliver()
	r.completes("s1")
	d := r.outcome("delivered", delivered)
	if d.Attempts != 1 || d.Status != 200 || d.Problem != "" {
		t.Errorf("delivery %+v", d)
	}
	m := r.arrived()[0]
	verifier, err := standardwebhooks.NewWebhook(r.secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify([]byte(m.body), m.header); err != nil {
		t.Errorf("the library refuses it: %v", err)
	}
	want := fmt.Sprintf(`{"type":"turn.completed","timestamp":%q,"data":{"sessionId":"s1","turnId":"t1","mode":"general","state":"completed","path":"/v1/sessions/s1/turns/t1"}}`,
		d.At.Format(time.RFC3339Nano))
	if m.body != want {
		t.Errorf("got %s\nwant %s", m.body, want)
	}
	if m.header.Get("Webhook-Id") != string(d.Message) || m.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", m.header)
	}
}

// For a day after a rotation both secrets are good.
func TestDeliverer_SignsWithBothSecretsAfterARotation(t *testing.T) {
	r := newRig(t)
	_, next, err := r.webhooks.Rotate(t.Context(), admin, r.hook.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.deliver()
	r.completes("s1")
	r.outcome("delivered", delivered)
	m := r.arrived()[0]
	for _, secret := range []string{r.secret, next} {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify([]byte(m.body), m.header); err != nil {
			t.Errorf("with one of the secrets: %v", err)
		}
	}
}

// A message is the same at every attempt, until the receiver takes it.
func TestDeliverer_TriesAgain(t *testing.T) {
	r := newRig(t)
	r.answer = func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "the-receiver's-secret")
		case 2:
			http.Redirect(w, &http.Request{}, "/elsewhere", http.StatusTemporaryRedirect)
		case 3:
			panic(http.ErrAbortHandler)
		}
	}
	r.deliver()
	r.completes("s1")
	if d := r.outcome("delivered", delivered); d.Attempts != 4 {
		t.Errorf("%d attempts, want 4", d.Attempts)
	}
	all := r.arrived()
	for i, m := range all {
		if m.body != all[0].body || m.header.Get("webhook-id") != all[0].header.Get("webhook-id") {
			t.Errorf("attempt %d is another message: %v %s", i+1, m.header, m.body)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d messages came, want 4: a redirect is not followed", len(all))
	}
}

// What a process leaves that could not reach the receiver, the next one delivers.
func TestDeliverer_GoesOnFromTheStore(t *testing.T) {
	r := newRig(t)
	r.answers(func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	stop := r.deliver()
	r.completes("s1")
	d := r.outcome("tried", func(d agent.WebhookDelivery) bool { return d.Attempts > 1 && d.Status == 503 })
	stop()
	r.answers(func(int, http.ResponseWriter, *http.Request) {})
	r.deliver()
	if again := r.outcome("delivered", delivered); again.Message != d.Message {
		t.Errorf("delivered %s, want %s", again.Message, d.Message)
	}
}

// A receiver that does not answer is given its time, and holds up nobody else.
func TestDeliverer_SlowReceiver(t *testing.T) {
	r := newRig(t)
	never := make(chan struct{})
	defer close(never)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		select {
		case <-never:
		case <-req.Context().Done():
		}
	}))
	defer slow.Close()
	hook, _, err := r.webhooks.Create(t.Context(), admin, contract.CreateWebhook{URL: slow.URL, Events: agent.WebhookEvents()})
	if err != nil {
		t.Fatal(err)
	}
	stop := r.deliver(func(c *Config) { c.Timeout = 300 * time.Millisecond })
	defer stop()
	for i := range 8 {
		r.completes(agent.SessionID(fmt.Sprint("s", i)))
	}
	for until := time.Now().Add(30 * time.Second); len(r.arrived()) < 8; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the other receiver waits")
		}
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all, _, err := r.webhooks.Deliveries(t.Context(), admin, hook.ID, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		timedOut := 0
		for _, d := range all {
			if d.Problem == "no answer in time" {
				timedOut++
			}
		}
		if timedOut > 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("no attempt ended: %+v", all)
		}
	}
}

// No more attempts to one receiver run at a time than it is told.
func TestDeliverer_AtOnce(t *testing.T) {
	r := newRig(t)
	const most = 2
	inside := make(chan struct{}, 100)
	pass := make(chan struct{})
	r.answer = func(int, http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-pass
		<-inside
	}
	for i := range 10 {
		r.completes(agent.SessionID(fmt.Sprint("s", i)))
	}
	r.deliver(func(c *Config) { c.AtOnce = most })
	for len(inside) < most {
		time.Sleep(time.Millisecond)
	}
	for range 10 {
		if n := len(inside); n > most {
			t.Errorf("%d attempts at once, want %d at most", n, most)
		}
		pass <- struct{}{}
	}
	for until := time.Now().Add(30 * time.Second); len(r.arrived()) < 10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d messages came, want 10", len(r.arrived()))
		}
	}
}

func TestDeliverer_GivesUp(t *testing.T) {
	t.Run("a receiver that is gone", func(t *testing.T) {
		r := newRig(t)
		r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
		r.deliver()
		r.completes("s1")
		if d := r.outcome("given up", failed); d.Attempts != 1 || d.Status != http.StatusGone {
			t.Errorf("delivery %+v", d)
		}
		for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if w, err := r.webhooks.Get(t.Context(), admin, r.hook.ID); err != nil || time.Now().After(until) {
				t.Fatalf("webhook %+v (error %v)", w, err)
			} else if !w.DisabledAt.IsZero() {
				break
			}
		}
	})
	t.Run("a message that is too old", func(t *testing.T) {
		r := newRig(t)
		r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
		r.deliver(func(c *Config) {
			c.Retry = time.Hour
			c.Backoff = func(n int64) time.Duration { return time.Duration(n-1) * c.Retry } // so the third attempt would come too late
		})
		r.completes("s1")
		if d := r.outcome("given up", failed); d.Attempts != 2 || d.Problem != "answered 500" {
			t.Errorf("delivery %+v", d)
		}
	})
	t.Run("a place that is not allowed", func(t *testing.T) {
		r := newRig(t)
		r.policy = outbound.Policy{} // the operator has taken the permission back
		r.deliver(func(c *Config) { c.Retry = time.Millisecond })
		r.completes("s1")
		d := r.outcome("given up", failed)
		if len(r.arrived()) != 0 || d.Status != 0 || d.Problem == "" {
			t.Errorf("%d messages came; delivery %+v", len(r.arrived()), d)
		}
	})
}

func TestBackoff(t *testing.T) {
	for n, longest := range map[int64]time.Duration{1: 5 * time.Second, 2: 20 * time.Second, 3: 80 * time.Second, 7: 5*time.Hour + 41*time.Minute + 20*time.Second, 8: 6 * time.Hour, 60: 6 * time.Hour, 1 << 40: 6 * time.Hour} {
		for range 100 {
			if got := backoff(n); got < longest/2 || got >= longest {
				t.Fatalf("attempt %d waits %s, want %s to %s", n, got, longest/2, longest)
			}
		}
	}
}
