package tenants

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// organisations are the tenants. Their names have one length, so that answers about their
// things do too.
var organisations = []string{"alpha", "bravo", "gamma"}

// nobody is an organisation of which nothing exists.
const nobody = "nobod"

// canary stands in everything that an organisation has, and nowhere else.
func canary(org string) string { return "canary-" + org + "-5f1c" }

// thing is a turn and what hangs on it, by the names under which it can be asked for.
type thing struct {
	org, state               string
	session, turn            string
	approval, response, call string
	key, webhook, erasure    string            // ids
	cursors                  map[string]string // by the last part of the list's path
	idempotencyKey           string
}

// states are those in which each organisation has a turn.
var states = []string{"completed", "waiting", "failed", "running", "asking", "response"}

func sessionOf(org, state string) string { return "s-" + org + "-" + state }
func turnOf(org, state string) string    { return "t-" + org + "-" + state }

// thingOf names a thing, whether it is there or not: as somebody would who has guessed
// how names are made.
func thingOf(org, state string) thing {
	return thing{org: org, state: state, session: sessionOf(org, state), turn: turnOf(org, state), approval: "apr_1",
		response: responseID(1, sessionOf(org, state), turnOf(org, state)), call: "call_1", key: "0000000000000000",
		webhook: "wh_" + strings.Repeat("0", 26), erasure: "era_" + strings.Repeat("0", 26), idempotencyKey: "key-" + org}
}

// tenant is an organisation with all that it has.
type tenant struct {
	org, names string
	things     []thing
}

// settle gives an organisation one of everything, under the names that an organisation
// called names would give.
func (r *rig) settle(org, names string) tenant {
	r.t.Helper()
	c := canary(org)
	r.index(org, "harbour.md", "The harbour of "+c+" is deep and has cranes.")
	n := tenant{org: org, names: names}
	for _, state := range states {
		x := thingOf(names, state)
		r.want(org, request{"POST", "/v1/sessions", encode(map[string]any{"sessionId": x.session, "systemPrompt": "Prompt of " + c,
			"tools": []any{map[string]any{"type": "function", "name": "read_file", "description": "Reads " + c, "parameters": map[string]any{
				"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}}}}}), nil}, 201)
		r.run(org, &x)
		n.things = append(n.things, x)
	}
	// Lists of more than one page, whose cursors others get to know.
	done := n.things[0]
	for i, key := range []string{"ddr_authoring", "general", "ddr_authoring"} {
		r.want(org, request{"PUT", "/v1/sessions/" + done.session + "/mode", encode(map[string]string{"mode": key, "reason": fmt.Sprint("Because of ", c, i)}), nil}, 200)
	}
	r.want(org, request{"POST", "/v1/sessions/" + done.session + "/branch", encode(map[string]string{"sessionId": sessionOf(names, "branch")}), nil}, 201)
	cursors := map[string]string{}
	for _, list := range []string{"/v1/sessions", "/v1/sessions/" + done.session + "/mode-history", "/v1/sessions/" + done.session + "/turns"} {
		cursors[list[strings.LastIndexByte(list, '/')+1:]] = r.secondPage(org, list)
	}
	var key struct{ KeyID string }
	for range 2 {
		read(r.t, r.want(org, request{"POST", "/v1/keys", encode(map[string]string{"user": "ann", "role": "admin", "name": "Key of " + c}), nil}, 201), &key)
	}
	hook := r.hook(org, c)
	for _, list := range []string{"/v1/webhooks/" + hook + "/deliveries", "/v1/audit"} {
		cursors[list[strings.LastIndexByte(list, '/')+1:]] = r.secondPage(org, list)
	}
	var erasure struct{ ErasureID string }
	read(r.t, r.want(org, request{"DELETE", "/v1/users/" + userOf(names), "", nil}, 202), &erasure)
	for i := range n.things {
		x := &n.things[i]
		x.cursors, x.key, x.webhook, x.erasure = cursors, key.KeyID, hook, erasure.ErasureID
	}
	return n
}

// userOf is somebody of an organisation of whom there is nothing.
func userOf(org string) string { return "u-" + org + "-gone" }

// secondPage returns the cursor of a list's second page.
func (r *rig) secondPage(org, list string) string {
	r.t.Helper()
	var page struct{ NextCursor string }
	read(r.t, r.want(org, request{"GET", list + "?limit=1", "", nil}, 200), &page)
	if page.NextCursor == "" {
		r.t.Fatalf("%s has one page only", list)
	}
	return page.NextCursor
}

// hook makes a webhook, to which something is to be sent.
func (r *rig) hook(org, c string) string {
	r.t.Helper()
	var hook struct{ WebhookID string }
	read(r.t, r.want(org, request{"POST", "/v1/webhooks", encode(map[string]any{"url": "https://example.com/" + c, "events": []string{"turn.completed"},
		"description": "Webhook of " + c}), nil}, 201), &hook)
	for range 2 {
		r.want(org, request{"POST", "/v1/webhooks/" + hook.WebhookID + "/test", "", nil}, 202)
	}
	return hook.WebhookID
}

// run brings the turn of a thing into its state.
func (r *rig) run(org string, x *thing) {
	r.t.Helper()
	c := canary(org)
	turn := map[string]any{"sessionId": x.session, "turnId": x.turn, "inputArtifacts": []any{
		map[string]string{"relativePath": "own.md", "fileName": "own.md", "origin": "user", "contents": "Contents of " + c},
		map[string]string{"relativePath": "shared.md", "fileName": "shared.md", "origin": "user", "contents": sharedContents},
	}, "solutionContextText": "Solution of " + c}
	execute := func(instruction string, status int) answer {
		turn["instruction"] = instruction
		return r.want(org, request{"POST", "/v1/agent/execute", encode(turn), nil}, status)
	}
	switch x.state {
	case "completed":
		execute("What about the harbour of "+c+"?", 200)
		turn["turnId"] = x.turn + "-2"
		execute("And the harbour again, "+c+"?", 200)
	case "waiting":
		var asked struct{ ToolCalls []struct{ ToolCallID string } }
		read(r.t, execute(`call read_file {"path":"`+c+`"}`, 200), &asked)
		x.call = asked.ToolCalls[0].ToolCallID
	case "failed":
		execute(refusal+" "+c, 502)
	case "running":
		go r.as(org, request{"POST", "/v1/agent/execute", encode(map[string]any{"sessionId": x.session, "turnId": x.turn, "instruction": hold + " " + c}), nil})
		<-r.provider.held
	case "asking":
		execute("call agent_list_modes {} for "+c, 200)
		var pending struct{ Data []struct{ ApprovalID string } }
		read(r.t, r.want(org, request{"GET", "/v1/sessions/" + x.session + "/turns/" + x.turn + "/approvals", "", nil}, 200), &pending)
		x.approval = pending.Data[0].ApprovalID
	case "response":
		var made struct{ ID string }
		read(r.t, r.want(org, request{"POST", "/v1/responses", encode(map[string]any{"conversation": x.session, "instructions": "Instructions of " + c,
			"input": "What about the harbour of " + c + "?"}), []string{"Idempotency-Key", x.idempotencyKey}}, 200), &made)
		x.response = made.ID
		var turns struct{ Data []struct{ TurnID string } }
		read(r.t, r.want(org, request{"GET", "/v1/sessions/" + x.session + "/turns", "", nil}, 200), &turns)
		x.turn = turns.Data[0].TurnID
	}
}

// sharedContents is a file that every organisation has.
var sharedContents = strings.Repeat("The same file in many places. ", 300)

// belongings is everything that a tenant has, as its own requests show it.
func (r *rig) belongings(n tenant) string {
	r.t.Helper()
	var b strings.Builder
	add := func(target string) {
		a := r.as(n.org, request{"GET", target, "", nil})
		fmt.Fprintf(&b, "GET %s: %d %s\n", target, a.status, a.body)
	}
	add("/v1/sessions")
	add("/v1/keys")
	add("/v1/webhooks")
	add("/v1/webhooks/" + n.things[0].webhook + "/deliveries")
	for _, x := range append(n.things, thingOf(n.names, "branch")) {
		session := "/v1/sessions/" + x.session
		add(session)
		add(session + "/mode-history")
		add(session + "/turns")
		for _, part := range []string{"", "/requests", "/approvals"} {
			add(session + "/turns/" + x.turn + part)
		}
		if x.state != "running" { // its events go on
			add(session + "/turns/" + x.turn + "/events")
		}
		add("/v1/responses/" + x.response)
		add("/v1/responses/" + x.response + "/input_items")
	}
	return b.String()
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals of this package
	}
	return string(b)
}

func read(t *testing.T, a answer, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}
