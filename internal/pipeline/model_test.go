package pipeline_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/invariants"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// The model of a server: what must be true of its sessions and turns after any course of
// commands. It is as simple as it can be, and knows nothing of how the server does it.

type modelSession struct {
	policy  agent.Concurrency
	mode    agent.ModeKey
	changes int
	turns   []*modelTurn
}

type modelTurn struct {
	id, plan string
	state    agent.TurnState
	queued   bool
}

// active returns the turn that holds the session: it waits for its client.
func (s *modelSession) active() *modelTurn {
	for _, t := range s.turns {
		if t.state == agent.TurnWaiting {
			return t
		}
	}
	return nil
}

// run plays a turn to where it rests.
func (s *modelSession) run(t *modelTurn, ledger map[string]int, key string) {
	t.queued = false
	switch t.plan {
	case "talk", "list", "wrong":
		t.state = agent.TurnCompleted
	case "write":
		t.state = agent.TurnCompleted
		ledger[key]++
	case "client":
		t.state = agent.TurnWaiting
	case "fail", "cut":
		t.state = agent.TurnFailed
	case "general", "ddr_authoring":
		t.state = agent.TurnCompleted
		s.switchTo(agent.ModeKey(t.plan))
	}
}

func (s *modelSession) switchTo(m agent.ModeKey) {
	if s.mode != m {
		s.mode, s.changes = m, s.changes+1
	}
}

// next plays the turns that wait while the session is free.
func (s *modelSession) next(id string, ledger map[string]int) {
	for _, t := range s.turns {
		if s.active() != nil {
			return
		}
		if t.queued {
			s.run(t, ledger, id+"/"+t.id)
		}
	}
}

// modelLedger is a server tool that may run once for a call.
type modelLedger struct{ ran map[string]int }

func (l *modelLedger) Definition() tool.Definition {
	return tool.Definition{Name: "ledger", Description: "Writes.", Usage: "Use it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}
}

func (l *modelLedger) Execute(_ context.Context, x *tool.ExecutionContext, _ string) (string, error) {
	l.ran[string(x.Session)+"/"+string(x.Turn)]++
	return "written", nil
}

// modelModes are three modes with the same tools.
func modelModes(t *testing.T) *mode.Catalog {
	t.Helper()
	files := fstest.MapFS{}
	for i, key := range []string{"general", "ddr_authoring", "workflow_authoring"} {
		files[key+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"id: %032d\nkey: %s\ndisplayName: %s\ndescription: d\nwhenToUse: w\nisDefault: %v\ntools: [ledger, agent_list_modes]\n", i+1, key, key, i == 0)}
	}
	c, err := mode.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// obey is a provider that follows the plan in the instruction. The ids of its calls name
// the plan too, for requests that have the results only.
func obey() func(request []byte) llmtest.Reply {
	var made atomic.Int64
	plan := regexp.MustCompile(`plan=(\w+)|function_call_output","call_id":"c-(\w+)-`)
	return func(request []byte) llmtest.Reply {
		all := plan.FindAllSubmatch(request, -1)
		if len(all) == 0 {
			return llmtest.Reply{Failure: "no plan"}
		}
		last := all[len(all)-1]
		answered := len(last[2]) > 0
		what := string(last[1]) + string(last[2])
		id := fmt.Sprintf("c-%s-%d", what, made.Add(1))
		call := func(name, arguments string) llmtest.Reply {
			return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: name, Arguments: arguments}}}
		}
		switch {
		case what == "fail":
			return llmtest.Reply{Failure: "no"}
		case what == "cut":
			return llmtest.Reply{Text: "It is cut off.", Cut: 6}
		case answered || what == "talk":
			return llmtest.Reply{Text: "Done: " + what}
		case what == "list":
			return call(tool.ListModes, "{}")
		case what == "wrong":
			return call("no_such_tool", "{}")
		case what == "write":
			return call("ledger", "{}")
		case what == "client":
			return call("read_file", "{}")
		default:
			return call(tool.ChangeMode, `{"mode":"`+what+`","branch":false,"reason":"r"}`)
		}
	}
}

// machine runs commands on the server and on the model.
type machine struct {
	t        *testing.T
	r        *rig
	sessions map[string]*modelSession
	ledger   map[string]int
	ran      *modelLedger
	made     int
}

func (m *machine) pick(t *rapid.T) (string, *modelSession) {
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session")
	return id, m.sessions[id]
}

// create makes the session when it is not there.
func (m *machine) create(t *rapid.T, id string) *modelSession {
	policy := rapid.SampledFrom([]agent.Concurrency{agent.ConcurrencyReject, agent.ConcurrencyQueue, agent.ConcurrencyInterrupt}).Draw(t, "policy")
	_, err := m.r.sessions.Create(m.t.Context(), caller, contract.CreateSession{SessionID: agent.SessionID(id), Concurrency: policy,
		Tools: []byte(`[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object"},"strict":false}]`)})
	if err != nil {
		t.Fatal(err)
	}
	s := &modelSession{policy: policy, mode: agent.ModeGeneral}
	m.sessions[id] = s
	return s
}

func (m *machine) turn(t *rapid.T) {
	id, s := m.pick(t)
	if s == nil {
		s = m.create(t, id)
	}
	m.made++
	turn := &modelTurn{id: fmt.Sprint("t", m.made), plan: rapid.SampledFrom([]string{
		"talk", "list", "wrong", "write", "client", "fail", "cut", "general", "ddr_authoring"}).Draw(t, "plan")}
	u := userTurn(id, turn.id, "plan="+turn.plan)
	key, _, err := m.r.pipeline.Submit(m.t.Context(), caller, u)
	switch active := s.active(); {
	case active != nil && s.policy == agent.ConcurrencyReject:
		if agent.KindOf(err) != agent.KindTurnInProgress {
			t.Fatalf("a second turn: %v, want turn_in_progress", err)
		}
		return
	case active != nil && s.policy == agent.ConcurrencyQueue:
		turn.state, turn.queued = agent.TurnAccepted, true
		if queued := s.queued(); queued >= 4 {
			if agent.KindOf(err) != agent.KindTurnInProgress {
				t.Fatalf("a turn too many: %v, want turn_in_progress", err)
			}
			return
		}
		s.turns = append(s.turns, turn)
	case active != nil:
		active.state = agent.TurnCancelled
		fallthrough
	default:
		s.turns = append(s.turns, turn)
		s.run(turn, m.ledger, id+"/"+turn.id)
		defer m.rests(t, key)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *modelSession) queued() (n int) {
	for _, t := range s.turns {
		if t.queued {
			n++
		}
	}
	return n
}

// rests waits until the turn does.
func (m *machine) rests(t *rapid.T, key agent.TurnKey) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := m.r.pipeline.Await(ctx, key); err != nil {
		t.Fatalf("await %s: %v", key, err)
	}
}

// any returns one of the turns of a session that has some.
func (m *machine) any(t *rapid.T) (id string, s *modelSession, turn *modelTurn) {
	id, s = m.pick(t)
	if s == nil || len(s.turns) == 0 {
		t.Skip("no turn yet")
	}
	return id, s, rapid.SampledFrom(s.turns).Draw(t, "turn")
}

func (m *machine) repeat(t *rapid.T) {
	id, _, turn := m.any(t)
	if _, _, err := m.r.pipeline.Submit(m.t.Context(), caller, userTurn(id, turn.id, "plan="+turn.plan)); err != nil {
		t.Fatalf("the same turn again: %v", err)
	}
	_, _, err := m.r.pipeline.Submit(m.t.Context(), caller, userTurn(id, turn.id, "plan="+turn.plan+" but otherwise"))
	if agent.KindOf(err) != agent.KindTurnConflict {
		t.Fatalf("the same turn with another body: %v, want turn_conflict", err)
	}
}

func (m *machine) proceed(t *rapid.T) {
	id, s, turn := m.any(t)
	key := agent.TurnKey{Org: caller.Org, Session: agent.SessionID(id), Turn: agent.TurnID(turn.id)}
	var answer struct{ ToolCalls []struct{ ToolCallID string } }
	stored, err := m.r.store.Turn(m.t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	call := "call_0"
	if turn.state == agent.TurnWaiting {
		if err := json.Unmarshal(stored.Response, &answer); err != nil || len(answer.ToolCalls) != 1 {
			t.Fatalf("a waiting turn has the answer %s (%v)", stored.Response, err)
		}
		call = answer.ToolCalls[0].ToolCallID
	}
	wrong := rapid.Bool().Draw(t, "wrong")
	if wrong {
		call += "x"
	}
	_, _, _, err = m.r.pipeline.Continue(m.t.Context(), caller, results(id, turn.id, call))
	switch {
	case turn.state != agent.TurnWaiting:
		if agent.KindOf(err) != agent.KindTurnNotWaiting {
			t.Fatalf("results for a turn that is %s: %v, want turn_not_waiting", turn.state, err)
		}
	case wrong:
		if err == nil {
			t.Fatal("results of another call were taken")
		}
	case err != nil:
		t.Fatal(err)
	default:
		turn.state = agent.TurnCompleted
		s.next(id, m.ledger)
		m.rests(t, key)
		if _, _, _, err := m.r.pipeline.Continue(m.t.Context(), caller, results(id, turn.id, call)); err != nil {
			t.Fatalf("the same results again: %v", err)
		}
	}
}

func (m *machine) cancel(t *rapid.T) {
	id, s, turn := m.any(t)
	key := agent.TurnKey{Org: caller.Org, Session: agent.SessionID(id), Turn: agent.TurnID(turn.id)}
	if err := m.r.pipeline.Cancel(m.t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if !turn.state.Terminal() {
		turn.state, turn.queued = agent.TurnCancelled, false
		s.next(id, m.ledger)
	}
}

func (m *machine) setMode(t *rapid.T) {
	id, s := m.pick(t)
	if s == nil {
		t.Skip("no session yet")
	}
	to := rapid.SampledFrom([]agent.ModeKey{"general", "ddr_authoring", "workflow_authoring"}).Draw(t, "mode")
	_, err := m.r.sessions.SetSessionMode(m.t.Context(), agent.ModeChange{Org: caller.Org, Session: agent.SessionID(id), Mode: to,
		Reason: "r", User: caller.User, Actor: agent.ActorUser})
	if err != nil {
		t.Fatal(err)
	}
	s.switchTo(to)
}

func (m *machine) erase(t *rapid.T) {
	id, s := m.pick(t)
	if s == nil {
		t.Skip("no session yet")
	}
	if err := m.r.pipeline.Erase(m.t.Context(), caller, agent.SessionID(id)); err != nil {
		t.Fatal(err)
	}
	delete(m.sessions, id)
	for key := range m.ledger {
		if strings.HasPrefix(key, id+"/") { // ids may come again in a session of this name
			delete(m.ledger, key)
			delete(m.ran.ran, key)
		}
	}
}

// check holds the server to the model.
func (m *machine) check(t *rapid.T) {
	ctx := m.t.Context()
	for id, s := range m.sessions {
		for _, turn := range s.turns { // what the last command set off comes to rest
			if !turn.queued {
				m.rests(t, agent.TurnKey{Org: caller.Org, Session: agent.SessionID(id), Turn: agent.TurnID(turn.id)})
			}
		}
		got, err := m.r.store.Session(ctx, caller.Org, agent.SessionID(id))
		if err != nil {
			t.Fatal(err)
		}
		history, _, err := m.r.store.ModeHistory(ctx, caller.Org, got.ID, store.Page{Limit: store.MaxLimit})
		if err != nil {
			t.Fatal(err)
		}
		if got.Mode != s.mode || len(history) != s.changes || got.Version != int64(s.changes)+1 || got.Turns != int64(len(s.turns)) {
			t.Fatalf("session %s is in %s after %d changes, version %d, %d turns; want %s, %d, %d, %d", id,
				got.Mode, len(history), got.Version, got.Turns, s.mode, s.changes, s.changes+1, len(s.turns))
		}
		for _, wrong := range invariants.History(got, history) {
			t.Fatal(wrong)
		}
		for i, turn := range s.turns {
			key := agent.TurnKey{Org: caller.Org, Session: agent.SessionID(id), Turn: agent.TurnID(turn.id)}
			stored, err := m.r.store.Turn(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := m.r.store.Steps(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if stored.State != turn.state || stored.Queued != turn.queued || stored.Ordinal != int64(i+1) {
				t.Fatalf("turn %s (%s) is %s, queued %v, the %dth; want %s, %v, the %dth", key, turn.plan,
					stored.State, stored.Queued, stored.Ordinal, turn.state, turn.queued, i+1)
			}
			for _, wrong := range invariants.Journal(stored, steps) {
				t.Fatal(wrong)
			}
		}
	}
	if fmt.Sprint(m.ran.ran) != fmt.Sprint(m.ledger) {
		t.Fatalf("the tool ran %v, want %v", m.ran.ran, m.ledger)
	}
}

// few lets every run of the tests do with less than rapid would draw; make torture asks
// for more.
func few(t *testing.T) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		if err := flag.Set("rapid.checks", "15"); err != nil {
			t.Fatal(err)
		}
	}
}

// Any course of turns, repetitions, results, cancels, switches, erasures and restarts
// leaves the server as the model says.
func TestModel(t *testing.T) {
	few(t)
	rapid.Check(t, func(rt *rapid.T) {
		ran := &modelLedger{ran: map[string]int{}}
		r := newRig(t, withModel(t), func(r *rig) {
			r.extra, r.catalog, r.times.QueueLength = []tool.Tool{ran}, modelModes(t), 4
			r.chain = rapid.Bool().Draw(rt, "chain")
		})
		defer r.stop()
		r.provider.Otherwise(obey())
		m := &machine{t: t, r: r, sessions: map[string]*modelSession{}, ledger: map[string]int{}, ran: ran}
		rt.Repeat(map[string]func(*rapid.T){
			"turn":    m.turn,
			"turn2":   m.turn, // more of them than of the others
			"turn3":   m.turn,
			"repeat":  m.repeat,
			"proceed": m.proceed,
			"cancel":  m.cancel,
			"setMode": m.setMode,
			"erase":   m.erase,
			"restart": func(*rapid.T) { r.restart() },
			"":        m.check,
		})
	})
}
