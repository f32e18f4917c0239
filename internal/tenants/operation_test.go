package tenants

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/server"
)

// operation is one of the published document.
type operation struct {
	id, method, path string
	parameters       []parameter
	body             bool
}

type parameter struct{ Name, In string }

// operations reads the document, so that a route which is new joins by itself.
func operations(t *testing.T) []operation {
	t.Helper()
	raw, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []parameter
			RequestBody *struct{}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			all = append(all, operation{op.OperationID, strings.ToUpper(method), path, op.Parameters, op.RequestBody != nil})
		}
	}
	// What erases comes last.
	rank := func(o operation) int {
		return slices.Index([]string{"GET", "PUT", "PATCH", "POST", "DELETE"}, o.method)
	}
	slices.SortFunc(all, func(a, b operation) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.id, b.id)) })
	if len(all) < 30 {
		t.Fatalf("the document has %d operations only", len(all))
	}
	return all
}

// inPath says what stands for a parameter of a path.
func inPath(x thing) map[string]string {
	return map[string]string{
		"sessionId": x.session, "turnId": x.turn, "approvalId": x.approval, "responseId": x.response, "keyId": x.key,
		"webhookId": x.webhook, "erasureId": x.erasure, "userId": userOf(x.org),
		"key": "general", "model": "default", // the same for everybody
	}
}

// beside says what a parameter of the query or a header is tried with.
func beside(x thing, path string) map[string][]string {
	return map[string][]string{
		"limit": {"1"}, "cursor": {x.cursors[path[strings.LastIndexByte(path, '/')+1:]], x.cursors["sessions"]},
		"after": {"0", "1", "msg_" + x.response}, "Last-Event-ID": {"0", "1"}, "stream": {"true"}, "starting_after": {"0"}, "order": {"asc"}, "force": {"true"},
		"Idempotency-Key": {x.idempotencyKey}, "confirm": {x.org},
		"session": {x.session}, "user": {"ann", userOf(x.org)}, "action": {"session.created", "key.created"}, "since": {"2020-01-01T00:00:00Z"}, "until": {"2100-01-01T00:00:00Z"},
	}
}

// bodies are those that an operation is tried with, by its id.
func bodies(x thing) map[string][]string {
	turn := func(id string) string {
		return encode(map[string]any{"sessionId": x.session, "turnId": id, "instruction": "What about the harbour and its cranes?"})
	}
	results := encode(map[string]any{"sessionId": x.session, "turnId": x.turn, "toolResults": []any{
		map[string]any{"toolCallId": x.call, "executionMs": 1, "resultJson": `"done"`}}})
	output := []any{map[string]string{"type": "function_call_output", "call_id": x.call, "output": "done"}}
	return map[string][]string{
		"execute":        {turn(x.turn), turn("fresh"), results},
		"preview":        {turn("fresh")},
		"createSession":  {encode(map[string]string{"sessionId": x.session}), "{}"},
		"setMode":        {`{"mode":"general","reason":"Because."}`},
		"setTools":       {`{"tools":[]}`},
		"branchSession":  {"{}", encode(map[string]string{"atTurnId": x.turn}), encode(map[string]string{"sessionId": "s-new-branch", "atTurnId": x.turn})},
		"decideApproval": {`{"decision":"approve"}`, `{"decision":"deny"}`},
		"createKey":      {`{"user":"ann","role":"user","name":"one more"}`},
		"createWebhook":  {`{"url":"https://example.com/one-more","events":["turn.failed"]}`},
		"createResponse": {
			encode(map[string]any{"conversation": x.session, "input": "What about the harbour?"}),
			encode(map[string]any{"conversation": x.session, "input": output}),
			encode(map[string]any{"previous_response_id": x.response, "input": "What about the harbour?"}),
			encode(map[string]any{"previous_response_id": x.response, "input": output}),
		},
	}
}

// requests are all the ways in which an operation is asked about a thing.
func (o operation) requests(t *testing.T, x thing) []request {
	t.Helper()
	target := o.path
	for _, p := range o.parameters {
		if p.In != "path" {
			continue
		}
		value, ok := inPath(x)[p.Name]
		if !ok {
			t.Fatalf("%s %s: say in inPath what stands for {%s}, and in tenant.settle that every tenant has one", o.method, o.path, p.Name)
		}
		target = strings.ReplaceAll(target, "{"+p.Name+"}", url.PathEscape(value))
	}
	texts := []string{""}
	if o.body {
		if texts = bodies(x)[o.id]; len(texts) == 0 {
			t.Fatalf("%s %s takes a body: say in bodies what %s is tried with", o.method, o.path, o.id)
		}
	}
	var all []request
	for _, text := range texts {
		all = append(all, request{o.method, target, text, nil})
		for _, p := range o.parameters {
			if p.In == "path" {
				continue
			}
			values, ok := beside(x, o.path)[p.Name]
			if !ok {
				t.Fatalf("%s %s: say in beside what %s is tried with", o.method, o.path, p.Name)
			}
			for _, v := range values {
				if p.In == "header" {
					all = append(all, request{o.method, target, text, []string{p.Name, v}})
				} else {
					all = append(all, request{o.method, target + "?" + url.Values{p.Name: {v}}.Encode(), text, nil})
				}
			}
		}
	}
	return all
}

// responseID makes the id of a response as the second door does, as somebody can who
// knows how: it is a name and no secret.
func responseID(n int, session, turn string) string {
	body := binary.AppendUvarint(nil, uint64(n))
	body = append(body, byte(len(session)))
	body = append(body, session+turn...)
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
	return "resp_" + base64.RawURLEncoding.EncodeToString(append(sum, body...))
}
