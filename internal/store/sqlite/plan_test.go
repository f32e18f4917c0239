package sqlite

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A turn must not cost more in a longer session, so no statement may walk a table.
// What is allowed to is listed with its reason.
func TestQueries_WalkNoTable(t *testing.T) {
	allowed := map[string]string{
		"Unfinished": "SCAN turns USING INDEX turns_active", // a row per active turn
		"Expired":    "SCAN turns USING INDEX turns_active",

		"CountSessions": "SCAN counted", // no more rows than the limit that is asked about

		"ExpiredQueued": "SCAN turns USING INDEX turns_queued", // a row per turn that waits for its session
		"IdleQueues":    "SCAN q USING COVERING INDEX turns_queued",
		"CountQueued":   "SCAN turns USING COVERING INDEX turns_queued",

		"WebhookOrgs":   "SCAN webhooks", // a row per webhook
		"DueWebhooks":   "SCAN w",
		"EveryWebhook":  "SCAN webhooks",
		"OpenErasure":   "SCAN erasures USING INDEX erasures_open", // a row per erasure that is not finished
		"SweepErasures": "SCAN erasures",                           // a row per erasure of the last days
	}
	s := temporary(t)
	named := regexp.MustCompile(`(?s)-- name: (\w+) :\w+\n(.*?;)`)
	narg := regexp.MustCompile(`sqlc\.narg\('(\w+)'\)`)
	embed := regexp.MustCompile(`sqlc\.embed\((\w+)\)`)
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
			for _, step := range plan(t, s, embed.ReplaceAllString(narg.ReplaceAllString(query[2], "@$1"), "$1.*")) {
				if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" && !strings.HasPrefix(step, allowed[query[1]]+" ") && step != allowed[query[1]] {
					t.Errorf("%s: %s", query[1], step)
				}
				if strings.Contains(step, "TEMP B-TREE") && allowed[query[1]] == "" {
					t.Errorf("%s sorts: %s", query[1], step)
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("found only %d queries", found)
	}
}

func plan(t *testing.T, s *Store, query string) []string {
	t.Helper()
	query = regexp.MustCompile(`@\w+`).ReplaceAllString(query, "NULL")
	rows, err := s.pool.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", detail)
		steps = append(steps, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
