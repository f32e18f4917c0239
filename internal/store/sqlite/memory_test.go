package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// What is remembered of a session is what stands in the file, whatever happened to it and in
// whose company, and what its turns have said can be read back.
func TestMemory_IsWhatTheFileHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		// Each is some hundred transactions.
		if err := checks.Value.Set("30"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	rounds, remembered := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		m := &sessions{t: rt, s: s, org: agent.OrgID(fmt.Sprintf("org%d", rounds)), turns: map[agent.TurnKey]agent.Turn{}, steps: map[agent.TurnKey][]agent.Step{}}
		rt.Repeat(map[string]func(*rapid.T){
			"open":        func(rt *rapid.T) { m.do(m.open(rt, true)) },
			"append":      func(rt *rapid.T) { m.do(m.append(rt)) },
			"change mode": func(rt *rapid.T) { m.do(m.changeMode(rt)) },
			"set tools":   func(rt *rapid.T) { m.do(m.setTools(rt)) },
			"branch":      func(rt *rapid.T) { m.do(m.branch(rt)) },
			"erase":       func(rt *rapid.T) { m.do(m.erase(rt)) },
			"several": func(rt *rapid.T) {
				moves := []func(*rapid.T) func() error{m.openNew, m.openNew, m.append, m.append, m.changeMode, m.setTools, m.erase}
				var all []func() error
				for _, move := range rapid.SliceOfN(rapid.SampledFrom(moves), 2, 5).Draw(rt, "moves") {
					all = append(all, move(rt))
				}
				m.do(all...)
			},
			"": func(rt *rapid.T) { remembered += m.check("t1", "new") },
		})
		if rapid.Bool().Draw(rt, "reopen") {
			closeStore(t, s)
			s = open(t, path)
			m.s = s
		}
		m.check("t1", "t2", "t3", "new")
		m.checkSaid()
		if _, err := s.EraseOrg(t.Context(), m.org); err != nil {
			rt.Fatal(err)
		}
		if got := list(t, s, fmt.Sprintf("SELECT count(*) FROM session_texts WHERE org = '%s'", m.org)); got != "0\n" {
			rt.Fatalf("%s texts are left of sessions that are erased", got)
		}
	})
	closeStore(t, s)
	if remembered == 0 {
		t.Error("nothing was remembered, so nothing was tested")
	}
}

// sessions writes at random into a few sessions, and knows what their turns have said.
type sessions struct {
	t   *rapid.T
	s   *Store
	org agent.OrgID

	opened int
	mu     sync.Mutex // guards what follows
	turns  map[agent.TurnKey]agent.Turn
	steps  map[agent.TurnKey][]agent.Step
}

// do does all of these, several of them in one transaction.
func (m *sessions) do(all ...func() error) {
	for _, err := range together(m.t.Context(), m.s, all...) {
		if err != nil && !refused(err) {
			m.t.Errorf("%v", err)
		}
	}
}

// together does what is given in one transaction and in its order, and returns the errors.
func together(ctx context.Context, s *Store, all ...func() error) []error {
	var done sync.WaitGroup
	errs, held := make([]error, len(all)), make(chan struct{})
	if len(all) > 1 {
		paused := make(chan struct{})
		done.Go(func() { _ = s.writer.pause(ctx, func() error { close(paused); <-held; return nil }) })
		<-paused
	}
	waiting := func() int {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		return len(s.writer.queue)
	}
	for i, one := range all {
		before := waiting()
		ended := make(chan struct{})
		done.Go(func() { defer close(ended); errs[i] = one() })
		for len(all) > 1 && waiting() == before {
			select {
			case <-ended: // it had nothing to write
				before = -1
			default:
				runtime.Gosched()
			}
		}
	}
	close(held)
	done.Wait()
	return errs
}

// refused are the errors that come of what was drawn.
func refused(err error) bool {
	busy := (*store.ActiveError)(nil)
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrState) ||
		errors.Is(err, store.ErrEntering) || errors.As(err, &busy) || agent.KindOf(err) == agent.KindNotFound ||
		strings.Contains(err.Error(), "UNIQUE constraint failed: turns.org, turns.session_id") // a turn is active
}

func (m *sessions) session(rt *rapid.T) agent.SessionID {
	return rapid.SampledFrom([]agent.SessionID{"a", "b"}).Draw(rt, "session")
}

// long returns one of a few texts that are worth a row of their own, or a short one.
func long(rt *rapid.T, name string) string {
	text := rapid.SampledFrom([]string{"", "short", "1", "2", "3", "4", "5"}).Draw(rt, name)
	if len(text) != 1 {
		return text
	}
	return fmt.Sprintf("%s %s", name, strings.Repeat(text, minText))
}

func (m *sessions) version(rt *rapid.T, k agent.TurnKey) int64 {
	at, err := standingOf(m.t.Context(), m.s.read, standingParams(k))
	if err != nil {
		rt.Fatal(err)
	}
	if at.Session == nil {
		return 0
	}
	return at.Session.Version
}

func (m *sessions) openNew(rt *rapid.T) func() error { return m.open(rt, false) }

func (m *sessions) open(rt *rapid.T, alone bool) func() error {
	// Mostly a new one. In the company of others it must be: which came first nobody knows.
	m.opened++
	k := agent.TurnKey{Org: m.org, Session: m.session(rt), Turn: agent.TurnID(fmt.Sprint("t", m.opened))}
	if alone && rapid.IntRange(0, 4).Draw(rt, "again") == 0 {
		k.Turn = "t1"
	}
	version := m.version(rt, k)
	if !alone && rapid.Bool().Draw(rt, "as the first") {
		version = 0 // what comes before it may erase the session
	}
	n := newTurn(k.Session, k.Turn, version)
	if n.Session != nil {
		n.Session.Org = k.Org
		n.Session.SystemPrompt = rapid.SampledFrom([]string{"", "be kind", strings.Repeat("x", maxSession)}).Draw(rt, "prompt")
		n.Session.ClientTools = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage("[]")}).Draw(rt, "client tools")
	}
	n.Turn.Key, n.Turn.Tools = k, json.RawMessage(long(rt, "tools"))
	if len(n.Turn.Tools) == 0 {
		n.Turn.Tools = nil
	}
	n.Turn.State = rapid.SampledFrom([]agent.TurnState{"", agent.TurnRunning, agent.TurnCompleted, agent.TurnCompleted, agent.TurnFailed, agent.TurnWaiting}).Draw(rt, "state")
	n.Turn.Queued = n.Turn.State == "" && rapid.IntRange(0, 3).Draw(rt, "queued") == 0
	n.SolutionContext = rapid.Ptr(rapid.SampledFrom([]string{"", "latched"}), true).Draw(rt, "solution context")
	n.LastResponseID = rapid.Ptr(rapid.SampledFrom([]string{"", "resp_1"}), true).Draw(rt, "response")
	n.ModeEntry = rapid.SampledFrom([]agent.ModeEntry{"", agent.EntryReady}).Draw(rt, "entry")
	n.Steps = append(n.Steps, asks(2, long(rt, "head")))
	return func() error {
		err := m.s.OpenTurn(m.t.Context(), n)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.turns[k], m.steps[k] = n.Turn, n.Steps
		}
		return err
	}
}

// asks is a step whose request has this head.
func asks(n int, head string) agent.Step {
	return agent.Step{N: n, Kind: agent.StepAsked, FirstEvent: int64(n), Asked: &agent.Asked{Call: 1, Canonical: "{}", WireHead: head}}
}

func (m *sessions) append(rt *rapid.T) func() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]agent.TurnKey, 0, len(m.steps))
	for k := range m.steps {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return func() error { return nil }
	}
	slices.SortFunc(keys, func(a, b agent.TurnKey) int { return cmp.Compare(a.String(), b.String()) })
	k := rapid.SampledFrom(keys).Draw(rt, "turn")
	next := asks(len(m.steps[k])+1, long(rt, "head"))
	a := store.Append{Key: k, Steps: []agent.Step{next},
		State:          rapid.SampledFrom([]agent.TurnState{"", agent.TurnRunning, agent.TurnCompleted, agent.TurnCancelled, agent.TurnWaiting}).Draw(rt, "state"),
		LastResponseID: rapid.Ptr(rapid.SampledFrom([]string{"", "resp_2"}), true).Draw(rt, "response"),
		ModeEntry:      rapid.SampledFrom([]agent.ModeEntry{"", agent.EntryFailed}).Draw(rt, "entry"),
		Approved:       rapid.SampledFrom([][]string{nil, {"look"}}).Draw(rt, "approved"),
	}
	if rapid.Bool().Draw(rt, "start") {
		a.Start = &store.Start{SessionVersion: m.version(rt, k), Mode: "general", Tools: json.RawMessage(`["at the start"]`)}
	}
	return func() error {
		err := m.s.AppendSteps(m.t.Context(), a)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.steps[k] = append(slices.Clip(m.steps[k]), next)
			if turn := m.turns[k]; a.Start != nil {
				turn.Tools = a.Start.Tools
				m.turns[k] = turn
			}
		}
		return err
	}
}

func (m *sessions) changeMode(rt *rapid.T) func() error {
	ch := agent.ModeChange{Org: m.org, Session: m.session(rt), Mode: rapid.SampledFrom([]agent.ModeKey{"general", "other"}).Draw(rt, "mode"), Reason: "r", User: "ann", Actor: agent.ActorUser}
	return func() error { _, _, _, err := m.s.ChangeMode(m.t.Context(), ch); return err }
}

func (m *sessions) setTools(rt *rapid.T) func() error {
	id := m.session(rt)
	return func() error { return m.s.SetTools(m.t.Context(), m.org, id, json.RawMessage(`[{}]`)) }
}

// branch makes session c out of one of the others, with its completed turns.
func (m *sessions) branch(rt *rapid.T) func() error {
	parent, child := m.session(rt), agent.SessionID("c")
	turns, _, err := m.s.Turns(m.t.Context(), m.org, parent, store.Page{})
	if err != nil && agent.KindOf(err) != agent.KindNotFound {
		rt.Fatal(err)
	}
	b := store.Branch{Session: newSession(child)}
	b.Session.Org, b.Session.Parent.Session = m.org, parent
	turns = slices.DeleteFunc(turns, func(t agent.Turn) bool { return t.State != agent.TurnCompleted })
	for _, turn := range turns {
		b.Session.Parent.Turn, b.Ordinal = turn.Key.Turn, turn.Ordinal
	}
	return func() error {
		err := m.s.BranchSession(m.t.Context(), b)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, turn := range turns {
				from, to := turn.Key, agent.TurnKey{Org: m.org, Session: child, Turn: turn.Key.Turn}
				// What was begun anew in the transaction that erased it may not have been noted.
				if written, noted := m.turns[from]; noted {
					m.turns[to], m.steps[to] = written, m.steps[from]
				}
			}
		}
		return err
	}
}

func (m *sessions) erase(rt *rapid.T) func() error {
	id := rapid.SampledFrom([]agent.SessionID{"a", "b", "c"}).Draw(rt, "session")
	return func() error {
		err := m.s.DeleteSession(m.t.Context(), m.org, id)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			for k := range m.steps {
				if k.Session == id {
					delete(m.steps, k)
					delete(m.turns, k)
				}
			}
		}
		return err
	}
}

// check compares what turns meet with the file, and returns how many sessions were remembered.
func (m *sessions) check(turns ...agent.TurnID) (remembered int) {
	for _, id := range []agent.SessionID{"a", "b", "c"} {
		m.checkSession(id)
		for _, turn := range turns {
			k := agent.TurnKey{Org: m.org, Session: id, Turn: turn}
			want, err := standingOf(m.t.Context(), m.s.read, standingParams(k))
			if err != nil {
				m.t.Fatal(err)
			}
			if _, ok := m.s.memory.standing(k); ok {
				remembered++
			}
			got, err := m.s.Standing(m.t.Context(), k)
			if d := diff.Diff(want, got); d != "" || err != nil {
				m.t.Fatalf("turn %s meets (error %v, -file +memory):\n%s", k, err, d)
			}
		}
	}
	return remembered
}

// checkSession compares a session with the file.
func (m *sessions) checkSession(id agent.SessionID) {
	got, err := m.s.Session(m.t.Context(), m.org, id)
	row, inFile := findSession(m.t.Context(), m.s.read, m.org, id)
	switch {
	case agent.KindOf(err) == agent.KindNotFound && inFile != nil:
	case err != nil || inFile != nil:
		m.t.Fatalf("session %s: %v, in the file %v", id, err, inFile)
	default:
		if d := diff.Diff(fromRow(row), got); d != "" {
			m.t.Fatalf("session %s (-file +memory):\n%s", id, d)
		}
	}
}

// checkSaid compares what the turns have said with what is read of them.
func (m *sessions) checkSaid() {
	for k, want := range m.turns {
		turn, err := m.s.Turn(m.t.Context(), k)
		if agent.KindOf(err) == agent.KindNotFound {
			continue // erased before it was noted
		}
		if d := diff.Diff(want.Tools, turn.Tools); d != "" || err != nil {
			m.t.Fatalf("the tools of %s differ (error %v, -written +read):\n%s", k, err, d)
		}
		steps, err := m.s.Steps(m.t.Context(), k)
		if d := diff.Diff(m.steps[k], steps); d != "" || err != nil {
			m.t.Fatalf("the journal of %s differs (error %v, -written +read):\n%s", k, err, d)
		}
	}
}

// A session of many turns keeps its instructions and tools once, beside the first turn that
// said them.
func TestTexts_KeptOnceASession(t *testing.T) {
	s := temporary(t)
	head, tools := strings.Repeat("h", 3000), strings.Repeat("t", 2000)
	for i := range 10 {
		n := newTurn("s1", agent.TurnID(fmt.Sprint("t", i)), min(int64(i), 1))
		n.Turn.State, n.Turn.Tools = agent.TurnCompleted, json.RawMessage(tools)
		n.Steps = append(n.Steps, asks(2, head))
		if err := s.OpenTurn(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"SELECT length(data) FROM session_texts ORDER BY 1":   "2000\n3000\n",
		"SELECT length(head) FROM steps WHERE head NOTNULL":   "3000\n",
		"SELECT length(tools) FROM turns WHERE tools NOTNULL": "2000\n",
	} {
		if got := list(t, s, query); got != want {
			t.Errorf("%s:\n%swant\n%s", query, got, want)
		}
	}
}

// A turn that goes on in the transaction in which its session changes learns nothing that does
// not hold any more.
func TestMemory_ChangedInTheSameTransaction(t *testing.T) {
	k := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	goesOn := store.Append{Key: k, State: agent.TurnRunning, Steps: []agent.Step{asks(2, "")}}
	changeMode := func(s *Store) error {
		_, _, _, err := s.ChangeMode(t.Context(), agent.ModeChange{Org: "acme", Session: "s1", Mode: "other", Reason: "r", User: "ann", Actor: agent.ActorUser})
		return err
	}
	setTools := func(s *Store) error { return s.SetTools(t.Context(), "acme", "s1", json.RawMessage(`[{}]`)) }
	for name, change := range map[string]func(s *Store) error{
		"mode before": changeMode, "mode after": changeMode, "tools before": setTools, "tools after": setTools,
	} {
		t.Run(name, func(t *testing.T) {
			s := temporary(t)
			if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
				t.Fatal(err)
			}
			all := []func() error{func() error { return change(s) }, func() error { return s.AppendSteps(t.Context(), goesOn) }}
			if strings.HasSuffix(name, "after") {
				slices.Reverse(all)
			}
			for _, err := range together(t.Context(), s, all...) {
				if err != nil {
					t.Fatal(err)
				}
			}
			fresh := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t2"}
			want, err := standingOf(t.Context(), s.read, standingParams(fresh))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Standing(t.Context(), fresh)
			if d := diff.Diff(want, got); d != "" || err != nil {
				t.Errorf("a turn meets (error %v, -file +memory):\n%s", err, d)
			}
		})
	}
	t.Run("erased and begun anew", func(t *testing.T) {
		s := temporary(t)
		turn := func(id agent.TurnID, version int64) store.NewTurn {
			n := newTurn("s1", id, version)
			n.Turn.State, n.Turn.Tools = agent.TurnCompleted, json.RawMessage(strings.Repeat("t", minText))
			return n
		}
		for i := range 2 {
			if err := s.OpenTurn(t.Context(), turn(agent.TurnID(fmt.Sprint("before", i)), int64(i))); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range together(t.Context(), s, func() error { return s.DeleteSession(t.Context(), "acme", "s1") }, func() error { return s.OpenTurn(t.Context(), turn("t1", 0)) }) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Turn(t.Context(), k); err != nil {
			t.Error(err)
		}
	})
}

// What a unit has said that was rolled back is not taken for said.
func TestTexts_RolledBack(t *testing.T) {
	s := temporary(t)
	turn := func(id agent.TurnID, version int64) store.NewTurn {
		n := newTurn("s1", id, version)
		n.Turn.State, n.Turn.Tools = agent.TurnCompleted, json.RawMessage(strings.Repeat("t", minText))
		return n
	}
	if err := s.OpenTurn(t.Context(), turn("t1", 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.OpenTurn(t.Context(), turn("t1", 1)); !errors.Is(err, store.ErrExists) {
		t.Fatalf("got %v, want a turn that exists", err)
	}
	if err := s.OpenTurn(t.Context(), turn("t2", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Turn(t.Context(), agent.TurnKey{Org: "acme", Session: "s1", Turn: "t2"}); err != nil {
		t.Error(err)
	}
}

// A text that is gone is told, and nothing is read as if it had been empty.
func TestTexts_Missing(t *testing.T) {
	s := temporary(t)
	for i := range 2 {
		n := newTurn("s1", agent.TurnID(fmt.Sprint("t", i)), min(int64(i), 1))
		n.Turn.State, n.Turn.Tools = agent.TurnCompleted, json.RawMessage(strings.Repeat("t", minText))
		n.Steps = append(n.Steps, asks(2, strings.Repeat("h", minText)))
		if err := s.OpenTurn(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, s, "DELETE FROM session_texts")
	k := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	if _, err := s.Turn(t.Context(), k); err == nil || !strings.Contains(err.Error(), "the session has no text") {
		t.Errorf("reading the turn: %v", err)
	}
	if _, err := s.Steps(t.Context(), k); err == nil || !strings.Contains(err.Error(), "the session has no text") {
		t.Errorf("reading its journal: %v", err)
	}
}

// Whoever writes sessions or turns in a new way must tell the memory, as the code around these
// queries does.
func TestMemory_KnowsEveryWriter(t *testing.T) {
	known := []string{
		"Admit", "InsertTurn", "MoveSession", "MoveTurn", "InsertText", // of the turn that is opened or goes on
		"SetMode", "SetTools", "DeleteSession", // forget
		"InsertSession", "CopyTurns", "CopyTexts", // into a session that is new, of which nothing is known
		"ForgetTurns", // does not change what a turn meets
	}
	files, err := filepath.Glob("queries/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	writes := regexp.MustCompile(`(?m)^(INSERT INTO|UPDATE|DELETE FROM) (sessions|turns|session_texts)\b`)
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range strings.Split(string(text), "-- name: ")[1:] {
			if writes.MatchString(query) {
				name, _, _ := strings.Cut(query, " ")
				found = append(found, name)
			}
		}
	}
	slices.Sort(known)
	slices.Sort(found)
	if d := diff.Diff(known, found); d != "" {
		t.Errorf("what writes sessions, turns and texts differs (-known +found):\n%s", d)
	}
}

// A session that is too large is read each time.
func TestMemory_IsBounded(t *testing.T) {
	s := temporary(t)
	for i := range maxRemembered + 10 {
		s.memory.learn(store.SessionKey{Org: "acme", Session: agent.SessionID(fmt.Sprint(i))}, remembered{standing: &standing{}})
	}
	if n := s.memory.sessions.Len(); n != maxRemembered {
		t.Errorf("%d sessions are remembered, want %d", n, maxRemembered)
	}
	key := store.SessionKey{Org: "acme", Session: "large"}
	for name, at := range map[string]*standing{
		"turns": {turns: make([]uint64, maxTurns+1)},
		"bytes": {session: agent.Session{SolutionContext: strings.Repeat("x", maxSession+1)}},
	} {
		s.memory.learn(key, remembered{standing: at})
		if s.memory.begin(key).standing != nil {
			t.Errorf("a session with too many %s is remembered", name)
		}
	}
}
