package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A turn must not cost more in a longer session, so no statement may walk a table. Where
// the planner is told to do so only when nothing else is left, one that does has no index.
func TestQueries_WalkNoTable(t *testing.T) {
	// The sweeps walk an index that has a row per turn that is active, or waits, and no
	// others.
	sweeps := []string{"Unfinished", "Expired", "ExpiredQueued", "IdleQueues", "CountQueued", "Takeover"}
	// These walk a row per webhook, or per erasure of the last days; and whoever searches the
	// audit log reads what was written in the time that he names.
	sweeps = append(sweeps, "WebhookOrgs", "DueWebhooks", "EveryWebhook", "ClaimErasure")
	lists := []string{"Audit", "SweepErasures"}
	s := temporary(t)
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	execute := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	execute("SET enable_seqscan = off")
	execute("SET plan_cache_mode = force_generic_plan")
	named := regexp.MustCompile(`(?s)-- name: (\w+) :\w+\n(.*?;)`)
	files, err := filepath.Glob("queries/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			name := query[1]
			statement, params := positional(query[2])
			execute("PREPARE " + name + " AS " + statement)
			explain := "EXPLAIN EXECUTE " + name
			if params > 0 {
				explain += " (NULL" + strings.Repeat(", NULL", params-1) + ")"
			}
			rows, err := conn.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, step := range plan {
				walks := strings.Contains(step, "Seq Scan on")
				// An index that is read without a condition on its key is walked, too.
				if strings.Contains(step, "Index") && strings.Contains(step, " using ") &&
					(i+1 == len(plan) || !strings.Contains(plan[i+1], "Index Cond")) {
					walks = !slices.Contains(sweeps, name)
				}
				// And one that looks for a turn among all of its session.
				if strings.Contains(step, "Filter: ") && (strings.Contains(step, "(turn_id = ") || strings.Contains(step, "(session_id = ")) {
					walks = true
				}
				if walks && !slices.Contains(lists, name) {
					t.Errorf("%s: %s", name, strings.TrimSpace(step))
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("found only %d queries", found)
	}
}

// positional gives the parameters of a query their numbers, and returns how many there
// are.
func positional(query string) (string, int) {
	query = regexp.MustCompile(`sqlc\.narg\('(\w+)'\)`).ReplaceAllString(query, "@$1")
	query = regexp.MustCompile(`sqlc\.embed\((\w+)\)`).ReplaceAllString(query, "$1.*")
	var names []string
	query = regexp.MustCompile(`@\w+`).ReplaceAllStringFunc(query, func(name string) string {
		i := slices.Index(names, name)
		if i < 0 {
			i, names = len(names), append(names, name)
		}
		return fmt.Sprint("$", i+1)
	})
	return query, len(names)
}
