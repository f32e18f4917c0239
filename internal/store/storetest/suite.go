// Package storetest is the behaviour suite of the store: what every keeper of the
// journal does, whatever it is built on. A keeper's tests call Run; what only it
// can do (its file, its locks, its plans) it tests itself.
//
// In a turn the package has no part. It is where "the stores behave alike" is a
// fact.
package storetest

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/store"
)

// Store is everything that a keeper of the journal does. Its users declare what
// they need of it; only this suite needs it all.
type Store interface {
	CreateSession(context.Context, agent.Session) error
	Session(context.Context, agent.OrgID, agent.SessionID) (agent.Session, error)
	Sessions(context.Context, agent.OrgID, store.Page) ([]agent.Session, string, error)
	SessionsOfUser(context.Context, agent.OrgID, agent.UserID, store.Page) ([]agent.Session, string, error)
	CountSessions(ctx context.Context, org agent.OrgID, most int) (int, error)
	DeleteSession(context.Context, agent.OrgID, agent.SessionID) error
	SetTools(context.Context, agent.OrgID, agent.SessionID, json.RawMessage) error
	ChangeMode(context.Context, agent.ModeChange) (agent.Session, agent.ModeChange, bool, error)
	ModeChangeOf(context.Context, agent.TurnKey, agent.CallID) (agent.ModeChange, bool, error)
	ModeHistory(context.Context, agent.OrgID, agent.SessionID, store.Page) ([]agent.ModeChange, string, error)
	Standing(context.Context, agent.TurnKey) (store.Standing, error)
	OpenTurn(context.Context, store.NewTurn) error
	Turn(context.Context, agent.TurnKey) (agent.Turn, error)
	Turns(context.Context, agent.OrgID, agent.SessionID, store.Page) ([]agent.Turn, string, error)
	AppendSteps(context.Context, store.Append) error
	Steps(context.Context, agent.TurnKey) ([]agent.Step, error)
	Transcript(ctx context.Context, org agent.OrgID, id agent.SessionID, after, before int64) ([]store.TurnItems, error)
	Unfinished(context.Context) ([]agent.TurnKey, error)
	Expired(context.Context, time.Time) ([]agent.TurnKey, error)
	NextQueued(context.Context, agent.OrgID, agent.SessionID) (agent.Turn, error)
	IdleQueues(context.Context) ([]agent.TurnKey, error)
	BranchSession(context.Context, store.Branch) error
	LastCompleted(context.Context, agent.OrgID, agent.SessionID) (agent.Turn, error)
	Blob(context.Context, agent.OrgID, string) ([]byte, error)
	EraseOrg(context.Context, agent.OrgID) (int, error)
	EraseIdle(context.Context, time.Time, store.SessionKey, int) (int, store.SessionKey, error)
	CreateKey(context.Context, agent.APIKey, [32]byte) error
	Key(context.Context, agent.KeyID) (agent.APIKey, [32]byte, error)
	Keys(context.Context, agent.OrgID, store.Page) ([]agent.APIKey, string, error)
	RevokeKey(context.Context, agent.OrgID, agent.KeyID, time.Time) (agent.APIKey, error)
	TouchKey(context.Context, agent.OrgID, agent.KeyID, time.Time) error
	AnyKey(context.Context) (bool, error)
	budget.Ledger
	WriteAudit(context.Context, agent.AuditEntry) error
	Audit(context.Context, agent.OrgID, store.AuditFilter, store.Page) ([]agent.AuditEntry, string, error)
	TrimAudit(ctx context.Context, before time.Time, after agent.OrgID, most int) (int, agent.OrgID, error)
	AcceptErasure(context.Context, store.Erasure) error
	Erasure(ctx context.Context, org agent.OrgID, id string) (store.Erasure, error)
	ClaimErasure(ctx context.Context, lease time.Duration) (store.Erasure, bool, error)
	MoveErasure(ctx context.Context, e store.Erasure, erased int, lease time.Duration) error
	FinishErasure(context.Context, store.Erasure) error
	SweepErasures(ctx context.Context, before time.Time) error
	SessionsAfter(ctx context.Context, org agent.OrgID, after agent.SessionID, most int) ([]store.Owned, error)
	ForgetUser(context.Context, agent.OrgID, agent.SessionID, agent.UserID) error
	CreateWebhook(context.Context, agent.Webhook) error
	Webhook(context.Context, store.WebhookKey) (agent.Webhook, error)
	Webhooks(context.Context, agent.OrgID) ([]agent.Webhook, error)
	DeleteWebhook(context.Context, store.WebhookKey) error
	RotateWebhook(ctx context.Context, k store.WebhookKey, secret agent.WebhookSecret, until time.Time) (agent.Webhook, error)
	DisableWebhook(context.Context, store.WebhookKey) error
	TestWebhook(context.Context, store.WebhookKey) (agent.WebhookDelivery, error)
	Deliveries(context.Context, store.WebhookKey, store.Page) ([]agent.WebhookDelivery, string, error)
	LookForWebhooks(context.Context) error
	DueWebhooks(context.Context) ([]store.WebhookKey, error)
	ClaimDeliveries(ctx context.Context, k store.WebhookKey, lease time.Duration, most int) (agent.Webhook, []agent.WebhookDelivery, error)
	SettleDelivery(context.Context, store.Attempt) error
	EveryWebhook(context.Context) ([]store.WebhookKey, error)
	SweepDeliveries(ctx context.Context, k store.WebhookKey, before time.Time, most int) (int, error)
	Room() error
	Ping(context.Context) error
	Close() error
}

// Run runs the suite. fresh makes new, empty data and returns how to open it; the
// suite opens it again, after it has closed it, to see what is durable.
func Run(t *testing.T, fresh func(t *testing.T) (open func() Store)) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Session", sessionTests()},
		{"Mode", modeTests()},
		{"Turn", turnTests()},
		{"Queue", queueTests()},
		{"Step", stepTests()},
		{"Transcript", transcriptTests()},
		{"Branch", branchTests()},
		{"Blob", blobTests()},
		{"Erase", eraseTests()},
		{"Key", keyTests()},
		{"Budget", budgetTests()},
		{"Tenants", tenantTests()},
		{"Audit", auditTests()},
		{"Erasure", erasureTests()},
		{"Webhook", webhookTests()},
		{"Concurrency", concurrencyTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					open := fresh(t)
					d := &data{Store: open(), open: open}
					t.Cleanup(func() {
						if err := d.Close(); err != nil {
							t.Errorf("close the store: %v", err)
						}
					})
					tt.run(t, d)
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*testing.T, *data)
}

// data is an open store that can be closed and opened again.
type data struct {
	Store
	open func() Store
}

// reopen closes the store and opens the same data again.
func (d *data) reopen(t *testing.T) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatalf("close the store: %v", err)
	}
	d.Store = d.open()
}

const (
	org      = agent.OrgID("acme")
	otherOrg = agent.OrgID("globex")
)

// start is when the suite's time begins. It is not UTC, which what comes back is.
var start = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.FixedZone("CET", 3600))

func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

func newSession(id agent.SessionID) agent.Session {
	return agent.Session{
		Org: org, ID: id, CreatedBy: "ann", Mode: agent.ModeGeneral, Concurrency: agent.ConcurrencyReject,
		CreatedAt: start,
	}
}

func key(session agent.SessionID, turn agent.TurnID) agent.TurnKey {
	return agent.TurnKey{Org: org, Session: session, Turn: turn}
}

// userTurn is a turn as the pipeline opens it, against the given version of the
// session; version 0 brings the session along.
func userTurn(k agent.TurnKey, version int64) store.NewTurn {
	n := store.NewTurn{
		SessionVersion: version,
		Turn: agent.Turn{
			Key: k, User: "ann", Request: json.RawMessage(`{"instruction":"hi"}`), BodySHA256: "b1",
			Mode: agent.ModeGeneral, Tools: json.RawMessage(`[]`), Deadline: at(10), CreatedAt: at(1),
		},
		Steps: []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, At: at(1)}},
	}
	if version == 0 {
		sess := newSession(k.Session)
		sess.Org = k.Org
		n.Session = &sess
	}
	return n
}

func create(t *testing.T, s Store, sess agent.Session) {
	t.Helper()
	if err := s.CreateSession(t.Context(), sess); err != nil {
		t.Fatalf("CreateSession: %v", err)
	}
}

func openTurn(t *testing.T, s Store, n store.NewTurn) (agent.Session, agent.Turn) {
	t.Helper()
	if err := s.OpenTurn(t.Context(), n); err != nil {
		t.Fatalf("OpenTurn: %v", err)
	}
	return session(t, s, n.Turn.Key.Session), readTurn(t, s, n.Turn.Key)
}

func appendSteps(t *testing.T, s Store, a store.Append) {
	t.Helper()
	if err := s.AppendSteps(t.Context(), a); err != nil {
		t.Fatalf("AppendSteps: %v", err)
	}
}

func session(t *testing.T, s Store, id agent.SessionID) agent.Session {
	t.Helper()
	sess, err := s.Session(t.Context(), org, id)
	if err != nil {
		t.Fatalf("Session: %v", err)
	}
	return sess
}

func readTurn(t *testing.T, s Store, k agent.TurnKey) agent.Turn {
	t.Helper()
	turn, err := s.Turn(t.Context(), k)
	if err != nil {
		t.Fatalf("Turn: %v", err)
	}
	return turn
}

func history(t *testing.T, s Store, id agent.SessionID) []agent.ModeChange {
	t.Helper()
	rows, _, err := s.ModeHistory(t.Context(), org, id, store.Page{Limit: store.MaxLimit})
	if err != nil {
		t.Fatalf("ModeHistory: %v", err)
	}
	return rows
}

// settle completes a turn that has the given number of steps.
func settle(t *testing.T, s Store, k agent.TurnKey, steps int) {
	t.Helper()
	appendSteps(t, s, store.Append{Key: k, State: agent.TurnCompleted, Steps: []agent.Step{
		{N: steps + 1, Kind: agent.StepSettled, FirstEvent: int64(steps) + 1, At: at(5),
			Settled: &agent.Settled{State: agent.TurnCompleted}},
	}})
}

func wantKind(t *testing.T, err error, kind agent.Kind) {
	t.Helper()
	if got := agent.KindOf(err); err == nil || got != kind {
		t.Errorf("got error %v of kind %s, want kind %s", err, got, kind)
	}
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp.Diff takes its time, even where there is nothing to tell
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// collect reads a whole list in pages of the given size.
func collect[T any](t *testing.T, size int, list func(store.Page) ([]T, string, error)) (all []T, pages int) {
	t.Helper()
	page := store.Page{Limit: size}
	for {
		rows, next, err := list(page)
		if err != nil {
			t.Fatalf("page %d: %v", pages+1, err)
		}
		if len(rows) > size {
			t.Fatalf("page %d has %d rows, want at most %d", pages+1, len(rows), size)
		}
		all, pages = append(all, rows...), pages+1
		if next == "" {
			return all, pages
		}
		page.Cursor = next
	}
}
