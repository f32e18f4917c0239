package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

const schemaRef = "#/components/schemas/"

// OpenAPI returns the OpenAPI 3.1 document of the server, as /openapi.json serves it.
func OpenAPI() ([]byte, error) {
	doc, err := document(routes())
	if err != nil {
		return nil, err
	}
	return renderDocument(doc)
}

// renderDocument writes the document for machines and for diffs.
func renderDocument(doc *huma.OpenAPI) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// document generates the OpenAPI document from the table of routes and the Go types
// it names. What the types do not say stands in schemas.go.
func document(table []route) (*huma.OpenAPI, error) {
	reg := huma.NewMapRegistry(schemaRef, huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:   "Aptix",
			Version: "v1",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Description: "A mode-aware agent execution server. Every answer carries X-Request-Id, which takes over the request's own " +
				"if that is 1 to 64 characters of [A-Za-z0-9_.-]. Every fault is a Problem, and under /v1/responses and /v1/models an error in OpenAI's form. Request members may also be spelled as in the " +
				"specification (SessionId for sessionId), not both ways at once; null is the same as absent. " +
				"Without authentication the server answers only to loopback names.",
		},
		Components: &huma.Components{
			Schemas: reg,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a token of the configured issuer. Not needed while the server runs without authentication, which ends with the first key."},
			},
		},
	}
	problem := reg.Schema(reflect.TypeFor[Problem](), true, "")
	for _, rt := range table {
		doc.AddOperation(operation(reg, problem, rt))
	}
	return doc, finishSchemas(reg)
}

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// operation describes one route.
func operation(reg huma.Registry, problem *huma.Schema, rt route) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: strings.TrimSuffix(rt.pattern, "{$}"),
		OperationID: rt.id, Summary: rt.summary, Description: remarks[rt.id],
		Responses: map[string]*huma.Response{},
	}
	if rt.class != public {
		op.Security = []map[string][]string{{"bearer": {}}, {}}
	}
	for _, m := range wildcard.FindAllStringSubmatch(rt.pattern, -1) {
		op.Parameters = append(op.Parameters, pathParameter(m[1]))
	}
	for _, name := range slices.Concat(rt.in.query, rt.in.header) {
		op.Parameters = append(op.Parameters, parameter(name))
	}
	if len(rt.in.bodies) > 0 {
		op.RequestBody = &huma.RequestBody{
			Required: !rt.in.optional,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: oneOf(reg, rt.in.bodies)}},
		}
	}
	for _, out := range rt.out {
		r := response(op, out.status)
		switch {
		case out.media == "text/event-stream" && speaksOpenAI(rt.pattern):
			r.Content[out.media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		case out.media == "text/event-stream":
			r.Content[out.media] = &huma.MediaType{Schema: eventStream()}
		case out.media == "text/html", out.media == "text/plain":
			r.Content[out.media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		case len(out.bodies) > 0:
			r.Content[out.media] = &huma.MediaType{Schema: oneOf(reg, out.bodies)}
		}
		if out.status == http.StatusCreated {
			r.Headers = map[string]*huma.Header{"Location": {Description: "Where the new thing is read.", Schema: &huma.Schema{Type: huma.TypeString}}}
		}
	}
	for status, kinds := range faultsOf(rt) {
		r := response(op, status)
		if speaksOpenAI(rt.pattern) {
			r.Description = "Error in OpenAI's form, for " + strings.Join(kinds, ", ") + "."
			r.Content["application/json"] = &huma.MediaType{Schema: reg.Schema(reflect.TypeFor[OpenAIError](), true, "")}
		} else {
			r.Description = "Problem with code " + strings.Join(kinds, ", ") + "."
			r.Content[problemType] = &huma.MediaType{Schema: problem}
		}
		switch status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
			r.Headers = map[string]*huma.Header{"Retry-After": {Description: "Seconds to wait before the request is sent again.", Schema: &huma.Schema{Type: huma.TypeInteger}}}
		}
	}
	return op
}

// response returns the operation's response of this status.
func response(op *huma.Operation, status int) *huma.Response {
	key := strconv.Itoa(status)
	if op.Responses[key] == nil {
		op.Responses[key] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{}}
	}
	return op.Responses[key]
}

// faultsOf returns the codes that a route may answer with, by status, with those
// that every route may.
func faultsOf(rt route) map[int][]string {
	kinds := with(rt.faults, agent.KindForbidden, agent.KindInternal)
	if rt.class != public {
		kinds = with(kinds, agent.KindUnauthenticated, agent.KindRateLimited, agent.KindUnavailable)
	}
	by := map[int][]string{}
	for _, k := range kinds {
		status := meanings[k].status
		if !slices.Contains(by[status], string(k)) {
			by[status] = append(by[status], string(k))
		}
	}
	for _, codes := range by {
		slices.Sort(codes)
	}
	return by
}

// oneOf returns the schema of a body that has one of these types.
func oneOf(reg huma.Registry, values []any) *huma.Schema {
	var all []*huma.Schema
	for _, v := range values {
		if _, ok := v.(anyJSON); ok {
			return &huma.Schema{Type: huma.TypeObject}
		}
		all = append(all, reg.Schema(reflect.TypeOf(v), true, ""))
	}
	if len(all) == 1 {
		return all[0]
	}
	return &huma.Schema{OneOf: all}
}

func pathParameter(name string) *huma.Param {
	s := idSchema()
	switch name {
	case "key":
		s = modeKeySchema()
	case "approvalId":
		s = &huma.Schema{Type: huma.TypeString, Pattern: `^apr_[0-9]+$`}
	case "keyId":
		s = &huma.Schema{Type: huma.TypeString, Pattern: `^[0-9a-v]{16}$`}
	case "userId":
		s = &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxUserID)}
	case "responseId":
		s = &huma.Schema{Type: huma.TypeString, Pattern: `^resp_[A-Za-z0-9_-]+$`}
	case "model":
		s = &huma.Schema{Type: huma.TypeString, Description: "As /v1/models lists it; a slash in it is written %2F."}
	}
	return &huma.Param{Name: name, In: "path", Required: true, Schema: s}
}

// parameter describes a query or header parameter.
func parameter(name string) *huma.Param {
	sequence := &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}
	switch name {
	case "limit":
		return &huma.Param{Name: name, In: "query", Description: "How many entries to return.",
			Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(store.MaxLimit)), Default: store.DefaultLimit}}
	case "after":
		return &huma.Param{Name: name, In: "query", Description: "The sequence of the last event seen.", Schema: sequence}
	case "force":
		return &huma.Param{Name: name, In: "query", Description: "Revoke also the organisation's last admin key.", Schema: &huma.Schema{Type: huma.TypeBoolean}}
	case "stream":
		return &huma.Param{Name: name, In: "query", Description: "Whether to follow the events.", Schema: &huma.Schema{Type: huma.TypeBoolean}}
	case "starting_after":
		return &huma.Param{Name: name, In: "query", Description: "The sequence_number of the last event seen.", Schema: sequence}
	case "items.limit":
		return &huma.Param{Name: "limit", In: "query", Description: "How many items to return.",
			Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(100.0), Default: 20}}
	case "items.after":
		return &huma.Param{Name: "after", In: "query", Description: "The id of the last item of the page before.", Schema: &huma.Schema{Type: huma.TypeString}}
	case "order":
		return &huma.Param{Name: name, In: "query", Description: "The order of the items.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"asc", "desc"}, Default: "desc"}}
	case "Idempotency-Key":
		return &huma.Param{Name: name, In: "header", Description: "The same key with the same body is the same response. Without it every request is a turn of its own.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(255)}}
	case "Last-Event-ID":
		return &huma.Param{Name: name, In: "header", Schema: sequence,
			Description: "As after, and stronger than it: an EventSource sends it when it reconnects."}
	case "session", "user":
		return &huma.Param{Name: name, In: "query", Description: "Only entries of this " + name + ".", Schema: &huma.Schema{Type: huma.TypeString}}
	case "action":
		return &huma.Param{Name: name, In: "query", Description: "Only entries of this action.",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: sortedOf(agent.AuditActions())}}
	case "since", "until":
		return &huma.Param{Name: name, In: "query", Description: map[string]string{"since": "The earliest time.", "until": "The first time that is too late."}[name],
			Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}}
	case "confirm":
		return &huma.Param{Name: name, In: "query", Required: true, Description: "The organisation's id, so that nothing is erased by mistake.", Schema: &huma.Schema{Type: huma.TypeString}}
	default:
		return &huma.Param{Name: name, In: "query", Description: "The nextCursor of the page before.", Schema: &huma.Schema{Type: huma.TypeString}}
	}
}

// remarks say what a summary has no room for, by operation id.
var remarks = map[string]string{
	"execute": "The body is a user turn or a tool continuation, told apart by its members. turnId makes the request idempotent: " +
		"the same body again gives the same turn, never a second run. The answer is JSON, or a stream of events when the turn asked for it; " +
		"a continuation is answered as its turn was. A client that hangs up does not stop the turn.",
	"preview": "Nothing is stored and no model is called. The hashes are those that the turn's model.request event would carry.",
	"followTurn": "Server-sent events from any point: those after Last-Event-ID or after, then live. Deliveries that are over are passed by. " +
		"The stream ends with the event that ends the turn, or with the turn.waiting at which the turn now stands; go on after it once the " +
		"tool results are sent. 204 means that a turn at rest has no further events. A stream that ends without one of turn.completed, turn.waiting, " +
		"turn.failed and turn.cancelled was cut: follow again from the last id.",
	"getUsage": "Of a day and a month: what was spent, what is left, and when they begin anew. A turn and a session have theirs each, of which the limits are told. " +
		"When a day's or a month's is used up new turns are refused with rate_limited and the time until the next one, when a session's is, with limit_reached; " +
		"a turn that runs ends with limit_reached before its next model call.",
	"cancelTurn": "The turn ends soon after, with state cancelled. A turn that is over stays as it is.",
	"createResponse": "The body, the answer and the events are those of OpenAI's Responses API, whose documentation describes them. The model is a configured " +
		"context (GET /v1/models). conversation names the session, and a new one is made without it; previous_response_id continues from the latest response. " +
		"tools are functions that the client runs; the server's own run on the server and are not shown. metadata.mode is the first mode of a new session; " +
		"otherwise the session's is used, and metadata.aptix_warning says so. What cannot be honoured is refused by name.",
	"getResponse":    "With stream=true the events, from the one after starting_after on: the same bytes as at first.",
	"deleteResponse": "A response whose conversation has others is refused with 409: their answers rest on it. DELETE /v1/sessions/{sessionId} erases the whole conversation.",
	"cancelResponse": "Ends the turn. A response that has ended stays as it is.",
	"branchSession": "For a client that acts on branch: true. The new session has copies of the completed turns up to atTurnId, so it goes on from there with the " +
		"parent's memory, prompt, tools and contexts, and stays whole when the parent is erased. The same request again, with a sessionId, gives the same session.",
	"decideApproval": "The turn goes on after the last decision; follow its events, or send its request again. The same decision again gives the same answer, " +
		"another one is 409. decision is one of the approval's options.",
	"createKey": "The key is in this answer and nowhere else; the server keeps a hash. It is of the caller's organisation, except on a server without authentication, " +
		"where the first key names any. That key turns authentication on for everybody, at once, and must be an admin's.",
	"listKeys":  "Also those that are revoked: a key is never forgotten. Their texts are not kept.",
	"revokeKey": "Within a second no request is taken with it, and streams that it opened end. The last admin key of an organisation is revoked with force=true only.",
	"eraseUser": "Erases every session that the user created; in the sessions of others his name becomes erased, and what he wrote there stays. " +
		"It is done in pieces and finished after a crash, too; read the erasure to see how far it is. The audit log keeps the id.",
	"eraseOrganisation": "Erases its sessions, webhooks and indexes, as eraseUser does. Its audit log and its credentials stay.",
	"createWebhook": "Messages are those of Standard Webhooks: POST with webhook-id, webhook-timestamp and webhook-signature, tried for three days. " +
		"They hold ids and no contents, may come twice, and in any order. The secret is shown in this answer only.",
	"setMode": "Same write path and same history as a change by the model. The mode that the session is in already changes nothing.",
}

// operationsOf returns the operations of a document in the order of the table.
func operationsOf(table []route, doc *huma.OpenAPI) []*huma.Operation {
	var ops []*huma.Operation
	for _, rt := range table {
		item := doc.Paths[strings.TrimSuffix(rt.pattern, "{$}")]
		ops = append(ops, map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete,
		}[rt.method])
	}
	return ops
}

// schemaNames returns the names of a document's schemas in order.
func schemaNames(doc *huma.OpenAPI) []string {
	return slices.Sorted(maps.Keys(doc.Components.Schemas.Map()))
}
