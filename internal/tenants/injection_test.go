package tenants

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

// spliced are texts that mean something to a database that reads them as its language.
var spliced = []string{
	"' OR '1'='1", "x' UNION SELECT * FROM sessions --", "'; DROP TABLE turns; --", `" OR ""="`, "1) OR 1=1 --", "$1", "?1", ":org", "%", "_", "*", `\`, "\x00", "alpha' --",
	"x NEAR/2 y", `harbour" OR "`, "{harbour}:x", "^harbour", "harbour*", "-harbour AND NOT x", "CAST(1/0 AS text)", "pg_sleep(60)", "/*", "0; ATTACH DATABASE 'x' AS y",
}

// What stands in a cursor, a filter, a search, a name or a member of metadata is data,
// whatever it looks like: nobody gets what is another's, nothing fails inside and nothing
// is lost (reliability S-16).
func TestSplicedSQL(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s journal) {
		r := newRig(t, s)
		victim, n := r.settle("alpha", "alpha"), r.settle("bravo", "bravo")
		before := r.belongings(victim)
		x := n.things[0]
		session := "/v1/sessions/" + x.session
		for i, text := range spliced {
			if !thorough && i%6 != 0 {
				continue
			}
			escaped := url.QueryEscape(text)
			requests := []request{
				{"GET", "/v1/sessions?limit=" + escaped, "", nil},
				{"GET", "/v1/sessions/" + url.PathEscape(text) + "/turns", "", nil},
				{"GET", session + "/turns/" + url.PathEscape(text), "", nil},
				{"GET", session + "/turns/" + x.turn + "/events?after=" + escaped, "", nil},
				{"GET", "/v1/responses/" + x.response + "/input_items?order=" + escaped, "", nil},
				{"GET", "/v1/responses/" + x.response + "/input_items?after=" + escaped, "", nil},
				{"GET", "/v1/responses/" + responseID(1, text, text), "", nil},
				{"POST", "/v1/responses", encode(map[string]any{"model": "default", "input": "Hello", "metadata": map[string]string{text: text}}), []string{"Idempotency-Key", strings.ReplaceAll(text, "\x00", "")}},
				{"POST", "/v1/sessions", encode(map[string]any{"systemPrompt": text, "sessionId": text}), nil},
				{"PUT", session + "/mode", encode(map[string]any{"mode": text, "reason": text}), nil},
				{"PUT", session + "/mode", encode(map[string]any{"mode": "general", "reason": text + " "}), nil},
				{"POST", "/v1/agent/execute", encode(map[string]any{"sessionId": "s-new", "turnId": "t" + strings.Repeat("i", i+1), "instruction": "harbour " + text,
					"ragScope": map[string]any{"conditions": []any{map[string]any{"key": text, "operator": "==", "values": []string{text}}}}}), nil},
				{"POST", "/v1/agent/execute", encode(map[string]any{"sessionId": "s-new", "turnId": "u" + strings.Repeat("i", i+1), "instruction": "harbour " + text,
					"ragScope": map[string]any{"conditions": []any{map[string]any{"key": "path", "operator": "contains", "values": []string{text}}}}}), nil},
			}
			for list, cursor := range x.cursors {
				for _, forged := range splice(t, cursor, text) {
					path := session + "/" + list
					if list == "sessions" {
						path = "/v1/sessions"
					}
					requests = append(requests, request{"GET", path + "?cursor=" + forged, "", nil})
				}
			}
			for _, q := range requests {
				a := r.as("bravo", q)
				if a.status >= 500 {
					t.Errorf("%s %s %s: %d %s %s", q.method, q.target, q.body, a.status, a.body, a.log)
				}
				if strings.Contains(a.body+a.log, canary("alpha")) {
					t.Errorf("%s %s %s shows what alpha has: %s", q.method, q.target, q.body, a.body)
				}
			}
		}
		if after := r.belongings(victim); after != before {
			t.Errorf("alpha had\n%s\nand has\n%s", before, after)
		}
	})
}

// splice puts a text in the place of each part of a cursor.
func splice(t *testing.T, cursor, text string) []string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	parts := strings.Split(string(raw), "/")
	for i := range parts {
		forged := append(append(append([]string{}, parts[:i]...), text), parts[i+1:]...)
		all = append(all, base64.RawURLEncoding.EncodeToString([]byte(strings.Join(forged, "/"))))
	}
	return all
}
