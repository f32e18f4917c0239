package sqlite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// A file from before turns had numbers keeps its turns, their journals and their contents,
// goes on, and lets go of all that is erased.
func TestMigrate_FileWithoutNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	writeUnnumbered(t, path)
	s := open(t, path)
	defer func() { closeStore(t, s) }()
	for session := range 3 {
		turns, _, err := s.Turns(t.Context(), "acme", key(session, 0).Session, store.Page{})
		if err != nil || len(turns) != 3 {
			t.Fatalf("got %d turns (error %v), want 3", len(turns), err)
		}
		for i, turn := range turns {
			if turn.Key != key(session, i) || turn.Ordinal != int64(i+1) || string(turn.Request) != fmt.Sprintf(`"of %s"`, turn.Key) {
				t.Errorf("turn %d is %s with ordinal %d and request %s", i, turn.Key, turn.Ordinal, turn.Request)
			}
			steps, err := s.Steps(t.Context(), turn.Key)
			if diff := cmp.Diff(unnumberedSteps(turn.Key), steps); diff != "" || err != nil {
				t.Errorf("the journal of %s differs (error %v, -want +got):\n%s", turn.Key, err, diff)
			}
		}
	}
	queued, err := s.NextQueued(t.Context(), "acme", "s0")
	if err != nil || queued.Key != key(0, 2) {
		t.Errorf("got %s (error %v), want the turn that waits", queued.Key, err)
	}
	next := unnumberedSteps(key(1, 1))[1]
	next.N = 4
	if err := s.AppendSteps(t.Context(), store.Append{Key: key(1, 1), State: agent.TurnCompleted, Steps: []agent.Step{next}}); err != nil {
		t.Errorf("a turn does not go on: %v", err)
	}
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t3", 1)); err != nil {
		t.Errorf("a session does not go on: %v", err)
	}
	if got := list(t, s, "SELECT * FROM pragma_foreign_key_check"); got != "" {
		t.Errorf("rows without what they refer to:\n%s", got)
	}
	if got := list(t, s, "SELECT session_id, turn_id, sha256 FROM blob_refs ORDER BY 1, 2"); got != "s0 t0 hash\ns1 t0 hash\ns2 t0 hash\n" {
		t.Errorf("the contents are of\n%s", got)
	}
	if _, err := s.EraseOrg(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"sessions", "turns", "steps", "blobs", "blob_refs"} {
		if got := list(t, s, "SELECT count(*) FROM "+table); got != "0\n" {
			t.Errorf("%s has %s rows after all was erased", table, got)
		}
	}
}

func unnumberedSteps(k agent.TurnKey) []agent.Step {
	steps := firstSchemaSteps()
	steps[1].Asked.Canonical = k.String()
	return steps
}

// writeUnnumbered makes a file as schema 8 had it: three sessions of three turns that were
// written in turns. The second turn of each is the one that runs, and in s0 the third one waits.
// Rows before theirs are gone.
func writeUnnumbered(t *testing.T, path string) {
	t.Helper()
	raw, run := schema(t, path, 8)
	session := func(id agent.SessionID) {
		run(`INSERT INTO sessions (org, session_id, created_by, mode, version, system_prompt, agent_context, conversation_context,
			solution_context, concurrency, last_response_id, turns, created_at, updated_at)
			VALUES ('acme', ?, 'ann', 'general', 1, '', '', '', '', 'queue', '', 3, 1, 1)`, id)
	}
	turn := func(k agent.TurnKey, ordinal int, state agent.TurnState, queued bool) {
		run(`INSERT INTO turns (org, session_id, turn_id, ordinal, user_id, state, request, body_sha256, mode, continuation_sha256,
			deadline, created_at, updated_at, queued) VALUES (?, ?, ?, ?, 'ann', ?, ?, '', 'general', '', 0, 1, 1, ?)`,
			k.Org, k.Session, k.Turn, ordinal, state, []byte(fmt.Sprintf(`"of %s"`, k)), queued)
		for _, step := range unnumberedSteps(k) {
			data, items, err := store.EncodeStep(step)
			if err != nil {
				t.Fatal(err)
			}
			run(`INSERT INTO steps (org, session_id, turn_id, n, kind, first_event, at, data, items) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`,
				k.Org, k.Session, k.Turn, step.N, step.Kind, step.FirstEvent, data, items)
		}
	}
	session("gone")
	for i := range 5 {
		turn(agent.TurnKey{Org: "acme", Session: "gone", Turn: agent.TurnID(fmt.Sprint("t", i))}, i+1, agent.TurnCompleted, false)
	}
	run("INSERT INTO blobs (org, sha256, mime_type, data, created_at) VALUES ('acme', 'hash', 'text/plain', X'41', 1)")
	for i := range 3 {
		for id := range 3 {
			k := key(id, i)
			state, queued := agent.TurnCompleted, false
			switch {
			case i == 0:
				session(k.Session)
			case i == 1:
				state = agent.TurnRunning
			case id == 0:
				state, queued = agent.TurnAccepted, true
			}
			turn(k, i+1, state, queued)
			if i == 0 {
				run("INSERT INTO blob_refs (org, session_id, turn_id, sha256) VALUES (?, ?, ?, 'hash')", k.Org, k.Session, k.Turn)
			}
		}
	}
	run("DELETE FROM sessions WHERE session_id = 'gone'")
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}

// list returns the rows of a query, a line each.
func list(t testing.TB, s *Store, query string) string {
	t.Helper()
	rows, err := s.pool.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, values...)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Whatever way a turn goes, its journal goes, and no other one does.
func TestErase_TakesTheJournalOfItsTurnsOnly(t *testing.T) {
	s := temporary(t)
	for turn := range 3 {
		for session := range 3 {
			if err := benchTurn(s, key(session, turn), int64(min(turn, 1)), t); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.DeleteSession(t.Context(), "acme", "s1"); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "DELETE FROM turns WHERE session_id = 's2' AND turn_id = 't1'")
	if got := list(t, s, "SELECT id >> 20, count(*) FROM steps GROUP BY 1"); got != "1 4\n3 4\n4 4\n7 4\n9 4\n" {
		t.Errorf("the journals that are left, by turn and with their steps:\n%s", got)
	}
	// A number that is free again finds no older steps.
	execute(t, s, "DELETE FROM turns WHERE session_id = 's2' AND turn_id = 't2'")
	if err := benchTurn(s, key(2, 3), 1, t); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Steps(t.Context(), key(2, 3))
	if err != nil || len(steps) != 4 {
		t.Errorf("got %d steps (error %v), want 4", len(steps), err)
	}
}

// The last number of a step is refused after; it would be in the next turn's journal.
func TestAppendSteps_JournalThatIsFull(t *testing.T) {
	s := temporary(t)
	for _, id := range []agent.SessionID{"s1", "s2"} {
		if err := s.OpenTurn(t.Context(), newTurn(id, "t1", 0)); err != nil {
			t.Fatal(err)
		}
	}
	const last = 1<<stepBits - 1
	execute(t, s, fmt.Sprintf("UPDATE steps SET id = (1 << %d) | %d WHERE id >> %d = 1", stepBits, last-1, stepBits))
	asked := func(n int) store.Append {
		return store.Append{Key: key(1, 1), Steps: []agent.Step{{N: n, Kind: agent.StepAsked, FirstEvent: 2,
			Asked: &agent.Asked{Call: 1, NewItems: []json.RawMessage{json.RawMessage(`{}`)}}}}}
	}
	if err := s.AppendSteps(t.Context(), asked(last)); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendSteps(t.Context(), asked(last+1)); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v, want a journal that is full", err)
	}
	for session, want := range map[int]int{1: 2, 2: 1} {
		if steps, err := s.Steps(t.Context(), key(session, 1)); err != nil || len(steps) != want {
			t.Errorf("s%d has %d steps (error %v), want %d", session, len(steps), err, want)
		}
	}
}

// A copy has the same numbers, though what was erased before them is not in it.
func TestBackup_KeepsNumbers(t *testing.T) {
	dir := t.TempDir()
	path, dest := filepath.Join(dir, "aptix.db"), filepath.Join(dir, "copy.db")
	s := open(t, path)
	for session := range 2 {
		if err := benchTurn(s, key(session, 1), 0, t); err != nil {
			t.Fatal(err)
		}
	}
	want, err := s.Steps(t.Context(), key(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSession(t.Context(), "acme", "s0"); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), path, dest, false); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	restored := open(t, dest)
	defer func() { closeStore(t, restored) }()
	got, err := restored.Steps(t.Context(), key(1, 1))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the journal differs (error %v, -want +got):\n%s", err, diff)
	}
}
