package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// contentTurn is a turn whose request carries a text of this size, which is among its
// blobs when known.
func contentTurn(k agent.TurnKey, version int64, size int, known bool) store.NewTurn {
	line := fmt.Sprintf("if err != nil { return fmt.Errorf(\"%s: %%w\", err) }\n", k)
	text := strings.Repeat(line, size/len(line)+1)[:size]
	inner, _ := json.Marshal(text) // a string always encodes
	n := newTurn(k.Session, k.Turn, version)
	n.Blobs = []agent.Blob{{SHA256: k.String(), Data: []byte(text)}}
	if !known {
		n.Blobs[0].Data = []byte(strings.ToUpper(text))
	}
	n.Steps = append(n.Steps, agent.Step{N: 2, Kind: agent.StepAsked, FirstEvent: 2, Asked: &agent.Asked{
		Call: 1, Canonical: `{"text":` + string(inner) + `}`, NewItems: []json.RawMessage{json.RawMessage(`{"text":` + string(inner) + `}`)}}})
	return n
}

// The file holds a content once, however often requests repeat it.
func TestCut_FileHoldsContentsOnce(t *testing.T) {
	s := temporary(t)
	const size = 256 << 10
	n := contentTurn(key(1, 1), 0, size, true)
	if err := s.OpenTurn(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	again := n.Steps[1]
	again.N, again.FirstEvent = 3, 3
	if err := s.AppendSteps(t.Context(), store.Append{Key: n.Turn.Key, State: agent.TurnRunning, Steps: []agent.Step{again}}); err != nil {
		t.Fatal(err)
	}
	var stored int64
	if err := s.pool.QueryRowContext(t.Context(), "SELECT sum(length(data) + coalesce(length(items), 0) + coalesce(length(cuts), 0)) FROM steps").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if stored > 2000 {
		t.Errorf("the steps hold %d bytes beside a content of %d", stored, size)
	}
	steps, err := s.Steps(t.Context(), n.Turn.Key)
	if err != nil {
		t.Fatal(err)
	}
	if steps[1].Asked.Canonical != n.Steps[1].Asked.Canonical || string(steps[2].Asked.NewItems[0]) != string(again.Asked.NewItems[0]) {
		t.Error("what is read is not what was stored")
	}
}

// A file from before contents were cut out is read as it is, and goes on.
func TestMigrate_FileOfTheFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	writeFirstSchema(t, path)
	s := open(t, path)
	defer func() { closeStore(t, s) }()
	steps, err := s.Steps(t.Context(), key(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(firstSchemaSteps(), steps); diff != "" {
		t.Errorf("the journal differs (-want +got):\n%s", diff)
	}
	turns, err := s.Transcript(t.Context(), "acme", "s1", 0, 0)
	items := store.Items(turns)
	if err != nil || len(items) != 2 {
		t.Errorf("got %d items (error %v), want 2", len(items), err)
	}
	if err := s.OpenTurn(t.Context(), contentTurn(key(1, 2), 1, 1<<16, true)); err != nil {
		t.Errorf("the session does not go on: %v", err)
	}
}

func firstSchemaSteps() []agent.Step {
	return []agent.Step{
		{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, Accepted: &agent.Accepted{Warnings: []string{"w"}}},
		{N: 2, Kind: agent.StepAsked, FirstEvent: 2, Asked: &agent.Asked{Call: 1, Canonical: "{}", WireHead: strings.Repeat("<h>", minText), NewItems: []json.RawMessage{json.RawMessage(`{"a": 1}`)}}},
		{N: 3, Kind: agent.StepAnswered, FirstEvent: 3, Answered: &agent.Answered{Call: 1, Items: []json.RawMessage{json.RawMessage(`{"b": 2}`)}}},
	}
}

// schema makes a file with an older schema, and returns it and what writes into it.
func schema(t *testing.T, path string, version int64) (raw *sql.DB, run func(statement string, args ...any)) {
	t.Helper()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	raw = rawFile(t, path)
	p, err := goose.NewProvider(goose.DialectSQLite3, raw, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	run = func(statement string, args ...any) {
		t.Helper()
		if _, err := raw.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return raw, run
}

// writeFirstSchema makes a file as the first schema had it.
func writeFirstSchema(t *testing.T, path string) {
	t.Helper()
	raw, run := schema(t, path, 1)
	run(`INSERT INTO sessions VALUES ('acme', 's1', 'ann', 'general', 1, '', NULL, '', '', '', 'reject', 'resp_1', 1, 1, 1)`)
	run(`INSERT INTO turns VALUES ('acme', 's1', 't1', 1, 'ann', 'completed', X'7B7D', 'h', 'general', X'5B5D', NULL, X'7B7D', NULL, '', 0, 1, 1)`)
	for _, step := range firstSchemaSteps() {
		data, items, err := store.EncodeStep(step)
		if err != nil {
			t.Fatal(err)
		}
		run(`INSERT INTO steps (org, session_id, turn_id, n, kind, first_event, at, data, items) VALUES ('acme', 's1', 't1', ?, ?, ?, 0, ?, ?)`,
			step.N, step.Kind, step.FirstEvent, data, items)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}
