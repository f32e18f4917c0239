package server

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// damages are values that no code of ours writes, as SQL literals.
var damages = []string{
	"NULL", "-1", "9223372036854775807", "1e308", "x'00ff80'", "''", "'x'", "'null'", "'{}'", "'[null]'", `'{"settled":{}}'`, `'{"kind":"final","mode":{}}'`,
	`'"\ud800"'`, "'" + strings.Repeat("[", 11_000) + "'", "'../../etc/passwd'", "'waiting'", "'completed'", "'running'", "'continued'", "'settled'",
}

// TestHostileRows damages every column of a data file under a server that runs: each route
// answers, with what can be read or with a fault that says nothing of what lies behind, and
// the server starts again on the file (reliability S-15, Z-3).
// It holds row S-26 of docs/security.md.
func TestHostileRows(t *testing.T) {
	columns := hostileColumns(t)
	if len(columns) < 40 {
		t.Fatalf("%d columns only", len(columns))
	}
	for i, c := range columns {
		t.Run(c[0]+"."+c[1], func(t *testing.T) {
			t.Parallel()
			w := newWhole(t)
			inhabit(t, w)
			writing := writable(t, w.path)
			damaged := 0
			for j, value := range damages {
				if (i+j)%(passedBy+1) != 0 || !damage(t, writing, c[0], c[1], value) {
					continue
				}
				w.log.Reset()
				damaged++
				for _, q := range lookAround() {
					a := w.plainly(t, q)
					if body := a.Body.String(); a.Code == http.StatusInternalServerError && (strings.Contains(body, "SELECT") || strings.Contains(body, "decode") || strings.Contains(body, "sqlite")) {
						t.Errorf("%s %s with %.40s: the answer says what lies behind: %s", q[0], q[1], value, body)
					}
				}
				if log := w.log.String(); strings.Contains(log, "panic: ") {
					t.Errorf("with %.40s: %.2000s", value, log[strings.Index(log, "panic: "):])
				}
			}
			if damaged < 2 && passedBy == 0 {
				t.Errorf("the file took %d damages", damaged)
			}
			w.startAgain(t)
		})
	}
}

// damage writes a value, as it is or as bytes, into a column of all rows or else of one; ok
// is false where the file itself does not take it.
func damage(t *testing.T, db *sql.DB, table, column, value string) (ok bool) {
	t.Helper()
	for _, v := range []string{value, "CAST(" + value + " AS BLOB)"} {
		set := fmt.Sprintf(`UPDATE "%s" SET "%s" = %s`, table, column, v)
		for _, where := range []string{"", fmt.Sprintf(` WHERE "%s" = (SELECT max("%s") FROM "%s")`, column, column, table)} {
			if _, err := db.ExecContext(t.Context(), set+where); err == nil {
				return true
			}
		}
	}
	return false
}

// inhabit gives a server a session with a turn in each state of rest.
func inhabit(t *testing.T, w *whole) {
	t.Helper()
	w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","systemPrompt":"Be brief.","tools":[{"type":"function","name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]}`).wantStatus(t, 201)
	w.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"call agent_list_modes {}","inputArtifacts":[{"relativePath":"a","fileName":"a","origin":"ide","contents":"`+strings.Repeat("text ", 2000)+`"}]}`).wantStatus(t, 200)
	w.do(t, "PUT", "/v1/sessions/s1/mode", `{"mode":"ddr_authoring","reason":"r"}`).wantStatus(t, 200)
	w.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"call read_file {\"path\":\"a\"}"}`).wantStatus(t, 200)
}

// lookAround are requests of every kind about what inhabit has made.
func lookAround() [][3]string {
	return [][3]string{
		{"GET", "/v1/sessions", ""}, {"GET", "/v1/sessions/s1", ""}, {"GET", "/v1/sessions/s1/mode-history", ""}, {"GET", "/v1/sessions/s1/turns", ""},
		{"GET", "/v1/sessions/s1/turns/t1", ""}, {"GET", "/v1/sessions/s1/turns/t1/requests", ""}, {"GET", "/v1/sessions/s1/turns/t1/approvals", ""},
		{"GET", "/v1/sessions/s1/turns/t2", ""}, {"GET", "/v1/sessions/s1/turns/t2/requests", ""},
		{"POST", "/v1/agent/preview", `{"sessionId":"s1","turnId":"t3","instruction":"x"}`},
		{"POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"other"}`},
		{"POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","toolResults":[{"toolCallId":"none","executionMs":1,"resultJson":"1"}]}`},
		{"POST", "/v1/sessions/s1/branch", `{}`},
	}
}

// startAgain starts a pipeline on what is left of the file, two days later: its recovery
// reads every row that is due. It may say that it cannot, and must not fall over.
func (w *whole) startAgain(t *testing.T) {
	t.Helper()
	if err := w.pipeline.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	c := w.pipeline.Config
	c.Hub, c.Now = events.NewHub(), func() time.Time { return time.Now().Add(48 * time.Hour) }
	again, err := pipeline.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Recover(t.Context()); err != nil {
		t.Logf("it does not start: %v", err)
	}
	if err := again.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// plainly asks without holding the answer to the document: a damaged name is shown as it
// is.
func (w *whole) plainly(t *testing.T, q [3]string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), q[0], q[1], strings.NewReader(q[2]))
	req.Host = "localhost"
	if q[2] != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	a := httptest.NewRecorder()
	w.ServeHTTP(a, req)
	return a
}

func hostileColumns(t *testing.T) (all [][2]string) {
	t.Helper()
	w := newWhole(t)
	for _, line := range w.query(t, `SELECT m.name || ' ' || c.name AS c FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose%'`) {
		table, column, _ := strings.Cut(strings.TrimPrefix(line, "c="), " ")
		all = append(all, [2]string{table, column})
	}
	return all
}

// writable opens a data file beside its server.
func writable(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	// What keeps the audit log from being changed can be taken away by whoever gets here.
	for _, trigger := range []string{"audit_horizon_moves", "audit_horizon_stays", "audit_is_not_changed", "audit_is_not_erased"} {
		if _, err := db.ExecContext(t.Context(), "DROP TRIGGER "+trigger); err != nil {
			t.Fatal(err)
		}
	}
	return db
}
