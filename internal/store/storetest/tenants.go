package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/store"
)

// These tests hold tenants apart where they are closest: in one store, under the same
// names (reliability S-7).
func tenantTests() []test {
	return []test{
		{"EveryMethodIsClassified", everyMethodIsClassified},
		{"OthersHaveNothing", othersHaveNothing},
		{"TwinsOfOneNameAreApart", twinsAreApart},
	}
}

// secret stands in everything that the victim has.
const secret = "canary-of-the-other"

// victim and waiting are the names of the other organisation's things.
var (
	victim  = agent.TurnKey{Org: otherOrg, Session: "s1", Turn: "t1"}
	waiting = agent.TurnKey{Org: otherOrg, Session: "s1", Turn: "t2"}
)

const (
	secretHash = "hash-of-the-secret"
	secretKey  = agent.KeyID("0123456789abcdef")

	secretErasure = "ers_of-the-other"
)

var secretScope = budget.Scope{Period: "2026-01"}

// hookOf names the webhook that each organisation calls alike.
func hookOf(o agent.OrgID) store.WebhookKey { return store.WebhookKey{Org: o, Webhook: "wh_1"} }

// access is a method called in the name of an organisation, with the names of the other
// one's things.
type access func(t *testing.T, s Store, org agent.OrgID) (any, error)

// accesses are the methods that act for one organisation. One that writes may be refused
// in its own way; it must change nothing of the other's.
func accesses() map[string]access {
	at := func(org agent.OrgID, k agent.TurnKey) agent.TurnKey { k.Org = org; return k }
	settled := agent.Step{N: 3, Kind: agent.StepSettled, FirstEvent: 3, Settled: &agent.Settled{State: agent.TurnCancelled}}
	return map[string]access{
		"Session": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Session(t.Context(), o, victim.Session)
		},
		"Sessions": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			// The victim's cursor, where there is a victim.
			_, cursor, err := s.Sessions(t.Context(), otherOrg, store.Page{Limit: 1})
			if err != nil {
				return nil, err
			}
			first, _, err := s.Sessions(t.Context(), o, store.Page{})
			if err != nil {
				return nil, err
			}
			next, _, err := s.Sessions(t.Context(), o, store.Page{Cursor: cursor})
			return slices.Concat(first, next), err
		},
		"DeleteSession": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.DeleteSession(t.Context(), o, victim.Session)
		},
		"SetTools": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.SetTools(t.Context(), o, victim.Session, raw(`[]`))
		},
		"ChangeMode": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			sess, entry, _, err := s.ChangeMode(t.Context(), agent.ModeChange{Org: o, Session: victim.Session, Mode: "ddr_authoring", Reason: "r", Actor: agent.ActorUser, User: "eve"})
			return []any{sess, entry}, err
		},
		"ModeChangeOf": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			entry, ok, err := s.ModeChangeOf(t.Context(), at(o, victim), "c1")
			if !ok {
				return nil, err
			}
			return entry, err
		},
		"ModeHistory": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.ModeHistory(t.Context(), o, victim.Session, store.Page{})
			return rows, err
		},
		"Standing": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			got, err := s.Standing(t.Context(), at(o, victim))
			if got == (store.Standing{}) {
				return nil, err
			}
			return got, err
		},
		"Turn": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Turn(t.Context(), at(o, victim))
		},
		"Turns": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.Turns(t.Context(), o, victim.Session, store.Page{})
			return rows, err
		},
		"Steps": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Steps(t.Context(), at(o, victim))
		},
		"Transcript": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Transcript(t.Context(), o, victim.Session, 0, 0)
		},
		"NextQueued": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.NextQueued(t.Context(), o, victim.Session)
		},
		"LastCompleted": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.LastCompleted(t.Context(), o, victim.Session)
		},
		"Blob": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Blob(t.Context(), o, secretHash)
		},
		"AppendSteps": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.AppendSteps(t.Context(), store.Append{Key: at(o, waiting), State: agent.TurnCancelled, Steps: []agent.Step{settled}})
		},
		"OpenTurn": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			n := userTurn(agent.TurnKey{Org: o, Session: victim.Session, Turn: "t9"}, 1)
			return nil, s.OpenTurn(t.Context(), n)
		},
		"BranchSession": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			b := store.Branch{Session: newSession("branch"), Ordinal: 1}
			b.Session.Org, b.Session.Parent = o, agent.Lineage{Session: victim.Session, Turn: victim.Turn}
			return nil, s.BranchSession(t.Context(), b)
		},
		"EraseOrg": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			n, err := s.EraseOrg(t.Context(), o)
			if n == 0 {
				return nil, err
			}
			return n, err
		},
		"Renew": leasing(func(t *testing.T, s store.Leasing, o agent.OrgID) (any, error) {
			lost, err := s.Renew(t.Context(), "node-of-the-victim", []store.Claim{{Key: at(o, waiting), Epoch: 1}}, time.Hour)
			return without(lost, o), err
		}),
		"Release": leasing(func(t *testing.T, s store.Leasing, o agent.OrgID) (any, error) {
			return nil, s.Release(t.Context(), "node-of-the-victim", []store.Claim{{Key: at(o, waiting), Epoch: 1}})
		}),
		"Positions": leasing(func(t *testing.T, s store.Leasing, o agent.OrgID) (any, error) {
			found, err := s.Positions(t.Context(), []agent.TurnKey{at(o, victim), at(o, waiting)})
			return found, err
		}),
		"SessionsOfUser": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.SessionsOfUser(t.Context(), o, secret, store.Page{})
			return rows, err
		},
		"Keys": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.Keys(t.Context(), o, store.Page{})
			return rows, err
		},
		"RevokeKey": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.RevokeKey(t.Context(), o, secretKey, start)
		},
		"TouchKey": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.TouchKey(t.Context(), o, secretKey, start)
		},
		"CountSessions": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.CountSessions(t.Context(), o, 10)
		},
		"SessionsAfter": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.SessionsAfter(t.Context(), o, "", 10)
		},
		"ForgetUser": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.ForgetUser(t.Context(), o, victim.Session, secret)
		},
		"Audit": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.Audit(t.Context(), o, store.AuditFilter{Session: victim.Session}, store.Page{})
			return rows, err
		},
		"Erasure": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Erasure(t.Context(), o, secretErasure)
		},
		"MoveErasure": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.MoveErasure(t.Context(), store.Erasure{Org: o, ID: secretErasure, User: "eve"}, 9, time.Hour)
		},
		"FinishErasure": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.FinishErasure(t.Context(), store.Erasure{Org: o, ID: secretErasure, User: "eve"})
		},
		"Webhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Webhook(t.Context(), hookOf(o))
		},
		"Webhooks": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Webhooks(t.Context(), o)
		},
		"DeleteWebhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.DeleteWebhook(t.Context(), hookOf(o))
		},
		"RotateWebhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.RotateWebhook(t.Context(), hookOf(o), agent.WebhookSecret("other"), start)
		},
		"DisableWebhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.DisableWebhook(t.Context(), hookOf(o))
		},
		"TestWebhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			made, err := s.TestWebhook(t.Context(), hookOf(o))
			if err != nil {
				return nil, err
			}
			return made, nil
		},
		"Deliveries": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			rows, _, err := s.Deliveries(t.Context(), hookOf(o), store.Page{})
			return rows, err
		},
		"ClaimDeliveries": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			w, rows, err := s.ClaimDeliveries(t.Context(), hookOf(o), time.Hour, 10)
			return []any{w, rows}, err
		},
		"SettleDelivery": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.SettleDelivery(t.Context(), store.Attempt{Key: hookOf(o), Message: "msg_1", Number: 1, Outcome: agent.DeliveryDelivered, At: start})
		},
		"SweepDeliveries": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.SweepDeliveries(t.Context(), hookOf(o), start.Add(1000*time.Hour), 10)
		},
		"Books": func(t *testing.T, s Store, o agent.OrgID) (found any, err error) {
			err = s.Books(t.Context(), at(o, victim), func(b budget.Books) error {
				e, there, err := b.Find(secretScope)
				if there {
					found = e
				}
				return errors.Join(err, b.Add(secretScope, budget.Amount{Tokens: 1}))
			}, notLanded)
			return found, err
		},
		"Spent": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return s.Spent(t.Context(), o, []budget.Scope{secretScope})
		},
		"DropHold": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.DropHold(t.Context(), at(o, waiting))
		},
		// These make what is the caller's own, so they succeed for anybody.
		"CreateWebhook": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			w := newWebhook("wh_made")
			w.Org = o
			return nil, s.CreateWebhook(t.Context(), w)
		},
		"AcceptErasure": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.AcceptErasure(t.Context(), store.Erasure{Org: o, ID: "ers_made", User: "eve", CreatedAt: start})
		},
		"WriteAudit": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			return nil, s.WriteAudit(t.Context(), agent.AuditEntry{Org: o, At: start, Action: agent.AuditConfigLoaded})
		},
		"CreateSession": func(t *testing.T, s Store, o agent.OrgID) (any, error) {
			sess := newSession("made")
			sess.Org = o
			return nil, s.CreateSession(t.Context(), sess)
		},
	}
}

// spanning are the methods that act for the server and take no organisation from
// anybody: what they return says whose it is.
var spanning = []string{"Unfinished", "Expired", "IdleQueues", "Queued", "OnCommit", "EraseIdle", "Takeover", "Room", "Ping", "Close",
	// A key is looked for before it is known whose it is: its secret says so.
	"Key", "AnyKey", "CreateKey",
	"ClaimErasure", "SweepErasures", "TrimAudit", "LookForWebhooks", "DueWebhooks", "EveryWebhook"}

// leasing is an access of a store for many nodes; another one has none of it.
func leasing(call func(*testing.T, store.Leasing, agent.OrgID) (any, error)) access {
	return func(t *testing.T, s Store, o agent.OrgID) (any, error) {
		l, ok := s.(store.Leasing)
		if !ok {
			return nil, nil
		}
		return call(t, l, o)
	}
}

// without leaves out the names that the caller gave itself.
func without(keys []agent.TurnKey, org agent.OrgID) []agent.TurnKey {
	return slices.DeleteFunc(keys, func(k agent.TurnKey) bool { return k.Org == org })
}

// A method that nobody has thought about fails here.
func everyMethodIsClassified(t *testing.T, d *data) {
	known := accesses()
	for _, of := range []reflect.Type{reflect.TypeOf(d.Store), reflect.TypeFor[Store](), reflect.TypeFor[store.Leasing]()} {
		for m := range of.Methods() {
			if _, ok := known[m.Name]; !ok && !slices.Contains(spanning, m.Name) {
				t.Errorf("%s has the method %s: say in accesses or spanning how it holds tenants apart", of, m.Name)
			}
		}
	}
}

// fill gives an organisation a session with a completed turn and one that waits, each
// thing in it marked.
func fill(t *testing.T, s Store, o agent.OrgID, mark string) {
	t.Helper()
	ctx := t.Context()
	sess := newSession(victim.Session)
	sess.Org, sess.SystemPrompt, sess.SolutionContext, sess.CreatedBy = o, mark, mark, agent.UserID(mark)
	sess.ClientTools = raw(`[{"name":"` + mark + `"}]`)
	create(t, s, sess)
	later := sess
	later.ID, later.CreatedAt = "s2", at(1)
	create(t, s, later)
	w := newWebhook(hookOf(o).Webhook)
	w.Org, w.Description, w.CreatedBy = o, mark, agent.UserID(mark)
	if err := s.CreateWebhook(ctx, w); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TestWebhook(ctx, hookOf(o)); err != nil {
		t.Fatal(err)
	}
	if o == otherOrg {
		e := store.Erasure{Org: o, ID: secretErasure, User: agent.UserID(mark), CreatedAt: start}
		if err := s.AcceptErasure(ctx, e); err != nil {
			t.Fatal(err)
		}
		err := s.Books(ctx, victim, func(b budget.Books) error {
			_, err := b.Open(secretScope)
			return errors.Join(err, b.Add(secretScope, budget.Amount{Tokens: 42}))
		}, notLanded)
		if err != nil {
			t.Fatal(err)
		}
		key := agent.APIKey{ID: secretKey, Org: o, User: agent.UserID(mark), Role: agent.RoleAdmin, Name: mark, CreatedAt: start}
		if err := s.CreateKey(ctx, key, [32]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	done := userTurn(agent.TurnKey{Org: o, Session: victim.Session, Turn: victim.Turn}, 1)
	done.Turn.Request, done.Turn.User = raw(`{"instruction":"`+mark+`"}`), agent.UserID(mark)
	done.Blobs = []agent.Blob{{SHA256: secretHash, Data: []byte(mark)}}
	if err := s.OpenTurn(ctx, done); err != nil {
		t.Fatal(err)
	}
	_, _, _, err := s.ChangeMode(ctx, agent.ModeChange{Org: o, Session: victim.Session, Mode: "ddr_authoring", Reason: mark, Actor: agent.ActorModel,
		User: agent.UserID(mark), Turn: victim.Turn, Call: "c1", At: at(2)})
	if err != nil {
		t.Fatal(err)
	}
	appendSteps(t, s, store.Append{Key: done.Turn.Key, State: agent.TurnCompleted, Response: raw(`{"text":"` + mark + `"}`), Steps: []agent.Step{
		{N: 2, Kind: agent.StepAsked, FirstEvent: 2, At: at(2), Asked: &agent.Asked{Call: 1, Canonical: mark, NewItems: raws([]string{`"` + mark + `"`})}},
		{N: 3, Kind: agent.StepAnswered, FirstEvent: 3, At: at(3), Answered: &agent.Answered{Call: 1, Items: raws([]string{`"` + mark + `"`})}},
		{N: 4, Kind: agent.StepSettled, FirstEvent: 3, At: at(4), Settled: &agent.Settled{State: agent.TurnCompleted}},
	}})
	open, err := s.Session(ctx, o, victim.Session)
	if err != nil {
		t.Fatal(err)
	}
	wait := userTurn(agent.TurnKey{Org: o, Session: victim.Session, Turn: waiting.Turn}, open.Version)
	wait.Turn.Request = raw(`{"instruction":"` + mark + `"}`)
	if err := s.OpenTurn(ctx, wait); err != nil {
		t.Fatal(err)
	}
	appendSteps(t, s, store.Append{Key: wait.Turn.Key, State: agent.TurnWaiting, Response: raw(`{"text":"` + mark + `"}`), Steps: []agent.Step{
		{N: 2, Kind: agent.StepWaiting, FirstEvent: 2, At: at(5), Waiting: &agent.Delivery{}}}})
	queued := queuedUserTurn(agent.TurnKey{Org: o, Session: victim.Session, Turn: "t3"})
	queued.SessionVersion = open.Version
	if err := s.OpenTurn(ctx, queued); err != nil {
		t.Fatal(err)
	}
}

// belongings is everything that an organisation has, as its own calls show it.
func belongings(t *testing.T, s Store, o agent.OrgID) string {
	t.Helper()
	known := accesses()
	var b strings.Builder
	for _, name := range []string{"Session", "Sessions", "ModeChangeOf", "ModeHistory", "Standing", "Turn", "Turns", "Steps", "Transcript", "NextQueued", "LastCompleted", "Blob", "Positions", "SessionsOfUser", "Keys",
		"CountSessions", "SessionsAfter", "Audit", "Erasure", "Webhook", "Webhooks", "Deliveries", "Spent"} {
		got, err := known[name](t, s, o)
		text, bad := json.Marshal(got)
		if bad != nil {
			t.Fatal(bad)
		}
		fmt.Fprintf(&b, "%s: %s %v\n", name, text, err)
	}
	return b.String()
}

// An organisation that has nothing finds nothing and changes nothing, whatever names of
// another one's things it has learned.
func othersHaveNothing(t *testing.T, d *data) {
	fill(t, d, otherOrg, secret)
	before := belongings(t, d, otherOrg)
	if _, cursor, err := d.Sessions(t.Context(), otherOrg, store.Page{Limit: 1}); cursor == "" || err != nil {
		t.Fatalf("the victim has no cursor to guess (error %v)", err)
	}
	if n := strings.Count(before, secret); n < 10 {
		t.Fatalf("the victim has its mark in %d places only:\n%s", n, before)
	}
	for name, call := range accesses() {
		if got, err := call(t, d, org); !nothing(got) || err == nil && writes(name) {
			t.Errorf("%s gives another organisation %+v, error %v", name, got, err)
		} else {
			silent(t, name, got, err)
		}
		if _, err := d.EraseOrg(t.Context(), org); err != nil { // what it made itself
			t.Fatal(err)
		}
	}
	if after := belongings(t, d, otherOrg); after != before {
		t.Errorf("the victim had\n%s\nand has\n%s", before, after)
	}
}

// writes reports whether a method changes something of its organisation's, so that it
// must fail where there is nothing.
func writes(method string) bool {
	return slices.Contains([]string{"DeleteSession", "SetTools", "ChangeMode", "AppendSteps", "OpenTurn", "BranchSession"}, method)
}

// nothing reports a result without anything in it.
func nothing(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Slice {
		for i := range r.Len() {
			if !nothing(r.Index(i).Interface()) {
				return false
			}
		}
		return true
	}
	return r.IsZero()
}

// silent checks that neither a result nor an error holds anything of the victim's.
func silent(t *testing.T, method string, got any, err error) {
	t.Helper()
	text, bad := json.Marshal(got)
	if bad != nil {
		t.Fatal(bad)
	}
	if bytes.Contains(text, []byte(secret)) || err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("%s shows another organisation %s, error %v", method, text, err)
	}
	if f := (*agent.Error)(nil); errors.As(err, &f) && strings.Contains(fmt.Sprint(f.Fault), secret) {
		t.Errorf("%s shows another organisation %+v", method, f.Fault)
	}
}

// Two organisations whose things have the same names: what one does to its own leaves the
// other's as it is.
func twinsAreApart(t *testing.T, d *data) {
	fill(t, d, otherOrg, secret)
	fill(t, d, org, "its-own")
	before := belongings(t, d, otherOrg)
	names := []string{"DeleteSession", "EraseOrg"} // the last ones
	for name := range accesses() {
		if !slices.Contains(names, name) {
			names = append([]string{name}, names...)
		}
	}
	for _, name := range names {
		got, err := accesses()[name](t, d, org)
		silent(t, name, got, err)
		if after := belongings(t, d, otherOrg); after != before {
			t.Fatalf("%s changed what the other organisation has: it had\n%s\nand has\n%s", name, before, after)
		}
	}
}
