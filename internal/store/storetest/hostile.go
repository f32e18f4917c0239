package storetest

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// Tables are a keeper's tables as SQL has them, beside the keeper.
type Tables struct {
	DB *sql.DB
	// Columns is a query for every column: its table, its name and its type.
	Columns string
	// Guards is a query for the statements that take away what keeps rows from being
	// changed: who writes to the database can do that as well.
	Guards string
}

// Hostile damages every column of every table and calls every method after it: rows are
// input like any other, whoever wrote them (reliability S-15, Z-3). The store is empty.
func Hostile(t *testing.T, s Store, tables Tables) {
	tables.unguard(t)
	columns, total := tables.columns(t), 0
	for i, c := range columns {
		t.Run(c.table+"."+c.name, func(t *testing.T) {
			tables.empty(t, columns)
			fill(t, s, org, "mark")
			for j, value := range hostileValues() {
				if (i+j)%(passedBy+1) != 0 || !tables.damage(t, c, value) {
					continue
				}
				total++
				for name, call := range accesses() {
					if !changes(name) {
						survive(t, c, value, name, func() error { return use(t, s, call) })
					}
				}
				for name, call := range spans(t, s) {
					survive(t, c, value, name, call)
				}
			}
			for name, call := range accesses() {
				if changes(name) {
					survive(t, c, "the last one", name, func() error { return use(t, s, call) })
				}
			}
		})
	}
	if total*(passedBy+1) < 5*len(columns) {
		t.Errorf("%d damages of %d columns only", total, len(columns))
	}
	t.Logf("%d columns, %d damages", len(columns), total)
}

type column struct{ table, name, kind string }

func (x Tables) columns(t *testing.T) (all []column) {
	t.Helper()
	rows, err := x.DB.QueryContext(t.Context(), x.Columns)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.table, &c.name, &c.kind); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := rows.Err(); err != nil || len(all) < 40 {
		t.Fatalf("%d columns, %v", len(all), err)
	}
	return all
}

func (x Tables) unguard(t *testing.T) {
	t.Helper()
	rows, err := x.DB.QueryContext(t.Context(), x.Guards)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var statements []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := x.DB.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// empty takes all rows away; what others refer to goes after them.
func (x Tables) empty(t *testing.T, columns []column) {
	t.Helper()
	left := map[string]error{}
	for _, c := range columns {
		left[c.table] = nil
	}
	for range len(left) {
		for table := range left {
			if _, left[table] = x.DB.ExecContext(t.Context(), `DELETE FROM "`+table+`"`); left[table] == nil {
				delete(left, table)
			}
		}
	}
	for table, err := range left {
		t.Fatalf("empty %s: %v", table, err)
	}
}

// hostileValues are literals; a column takes those that its type and its rules take.
func hostileValues() []string {
	text := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return []string{
		"NULL", "0", "-1", "9223372036854775807", "-9223372036854775808", "1e308", "x'00ff80'", `'\x1e00ff'`, "'infinity'", "'0001-01-01'", "'true'",
		text(""), text("x"), text("null"), text("{}"), text("[]"), text(`[null]`), text(`{"settled":{}}`), text(`{"asked":null}`), text(`{"Mode":{"Mode":1}}`),
		text(`"\ud800"`), text("\u017f\u212a"), text("{\"a\":1,\"a\":2}"), text(strings.Repeat("[", 11_000)), text(strings.Repeat("a", 1<<16)),
		text("../../etc/passwd"), text("'; DROP TABLE turns; --"), text("completed"), text("queued"), text("waiting"), text("settled"),
	}
}

// damage writes a value into a column of all rows, or else of one. ok is false where the
// database itself refuses it.
func (x Tables) damage(t *testing.T, c column, value string) (ok bool) {
	t.Helper()
	if value[0] != 'N' && c.kind != "" {
		value = "CAST(" + value + " AS " + c.kind + ")"
	}
	statement := fmt.Sprintf(`UPDATE "%s" SET "%s" = %s`, c.table, c.name, value)
	if _, err := x.DB.ExecContext(t.Context(), statement); err == nil {
		return true
	}
	_, err := x.DB.ExecContext(t.Context(), statement+fmt.Sprintf(` WHERE "%s" = (SELECT max("%s") FROM "%s")`, c.name, c.name, c.table))
	return err == nil
}

// changes reports whether a method writes.
func changes(method string) bool {
	return writes(method) || slices.Contains([]string{"CreateSession", "EraseOrg", "Release", "ForgetUser", "AcceptErasure", "MoveErasure", "FinishErasure",
		"CreateWebhook", "DeleteWebhook", "RotateWebhook", "DisableWebhook", "TestWebhook", "SettleDelivery", "SweepDeliveries", "Books", "DropHold", "WriteAudit"}, method)
}

// use calls a method for the organisation whose rows are damaged, and looks at what it
// gives as its callers do.
func use(t *testing.T, s Store, call access) error {
	got, err := call(t, s, org)
	if steps, ok := got.([]agent.Step); ok {
		for _, step := range steps {
			step.Events(victim)
		}
	}
	return err
}

// spans are the methods that take in the rows of everybody.
func spans(t *testing.T, s Store) map[string]func() error {
	ctx := t.Context()
	return map[string]func() error{
		"Unfinished": func() error { _, err := s.Unfinished(ctx); return err },
		"Expired":    func() error { _, err := s.Expired(ctx, at(1000)); return err },
		"IdleQueues": func() error { _, err := s.IdleQueues(ctx); return err },
		"EraseIdle": func() error {
			_, _, err := s.EraseIdle(ctx, start.Add(-time.Hour), store.SessionKey{}, 10)
			return err
		},
		"ClaimErasure": func() error { _, _, err := s.ClaimErasure(ctx, time.Nanosecond); return err },
		"TrimAudit":    func() error { _, _, err := s.TrimAudit(ctx, start.Add(-time.Hour), "", 10); return err },
		"LookForWebhooks": func() error {
			return s.LookForWebhooks(ctx)
		},
		"DueWebhooks":  func() error { _, err := s.DueWebhooks(ctx); return err },
		"EveryWebhook": func() error { _, err := s.EveryWebhook(ctx); return err },
	}
}

// survive runs a method on damaged rows: it returns a result or an error.
func survive(t *testing.T, c column, value, method string, call func() error) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s panics with %v when %s.%s is %.60s", method, v, c.table, c.name, value)
		}
	}()
	_ = call() // either will do
}
