package server

import (
	"fmt"
	"net/http"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
)

// routes is the whole URL space. The OpenAPI document is generated from it.
func routes() []route {
	const (
		session = "/v1/sessions/{sessionId}"
		turn    = session + "/turns/{turnId}"

		response = "/v1/responses/{responseId}"
		webhook  = "/v1/webhooks/{webhookId}"
	)
	return []route{
		{"POST", "/v1/agent/execute", user, "execute", "Run a user turn, or go on with one after its tool calls", (*Server).execute,
			takes(contract.UserTurn{}, contract.ToolContinuation{}), gives(is(200, contract.Final{}, contract.ClientToolContinuation{}), eventBody), turnFaults},
		{"POST", "/v1/agent/preview", user, "preview", "Show the request that a user turn would send", (*Server).preview,
			takes(contract.UserTurn{}), gives(is(200, Preview{})), previewFaults},

		{"POST", "/v1/sessions", user, "createSession", "Create a session", (*Server).createSession,
			may(contract.CreateSession{}), gives(is(201, Session{})), createFaults},
		{"GET", "/v1/sessions", user, "listSessions", "List the sessions, newest first", (*Server).listSessions,
			pages, gives(is(200, List[Session]{})), badQuery},
		{"GET", session, user, "getSession", "Read a session", (*Server).getSession,
			nothing, gives(is(200, Session{})), missing},
		{"DELETE", session, user, "deleteSession", "Erase a session and everything under it", (*Server).deleteSession,
			nothing, gives(is(204)), with(missing, agent.KindStorageFull)},
		{"GET", session + "/mode-history", user, "listModeHistory", "List the changes of the mode, newest last", (*Server).modeHistory,
			pages, gives(is(200, List[ModeChange]{})), with(missing, badQuery...)},
		{"PUT", session + "/mode", user, "setMode", "Change the mode by hand; the tools follow with the next turn", (*Server).setMode,
			takes(contract.SetMode{}), gives(is(200, Session{})), with(changeFaults, agent.KindUnknownMode, agent.KindTurnInProgress)},
		{"PUT", session + "/tools", user, "setTools", "Replace the client's tools, from the next turn on", (*Server).setTools,
			takes(contract.SetTools{}), gives(is(200, Session{})), changeFaults},

		{"POST", session + "/branch", user, "branchSession", "Make a session that remembers what this one does", (*Server).branchSession,
			may(contract.BranchSession{}), gives(is(201, Session{})), branchFaults},

		{"GET", session + "/turns", user, "listTurns", "List the turns, newest last", (*Server).listTurns,
			pages, gives(is(200, List[Turn]{})), with(missing, badQuery...)},
		{"GET", turn, user, "getTurn", "Read where a turn stands", (*Server).getTurn,
			nothing, gives(is(200, Turn{})), missing},
		{"GET", turn + "/events", user, "followTurn", "Follow a turn's events", (*Server).followTurn,
			resumes, gives(eventBody, is(204)), with(missing, badQuery...)},
		{"GET", turn + "/requests", user, "listRequests", "List the model calls of a turn, byte for byte", (*Server).listRequests,
			nothing, gives(is(200, List[ModelCall]{})), missing},
		{"POST", turn + "/cancel", user, "cancelTurn", "Ask for the end of a turn", (*Server).cancelTurn,
			nothing, gives(is(202, Turn{})), with(missing, agent.KindStorageFull)},

		{"GET", turn + "/approvals", user, "listApprovals", "List what a turn waits for its user to decide", (*Server).listApprovals,
			nothing, gives(is(200, List[agent.Approval]{})), missing},
		{"POST", turn + "/approvals/{approvalId}", user, "decideApproval", "Decide whether a tool call runs", (*Server).decide,
			takes(agent.Verdict{}), gives(is(200, Decided{})), decideFaults},

		{"GET", "/v1/modes", user, "listModes", "List the modes, the default first", (*Server).listModes,
			pages, gives(is(200, List[mode.Mode]{})), badQuery},
		{"GET", "/v1/modes/{key}", user, "getMode", "Read a mode", (*Server).getMode,
			nothing, gives(is(200, mode.Mode{})), missing},
		{"GET", "/v1/usage", user, "getUsage", "Read the budgets of the organisation and what was spent of them", (*Server).usage,
			nothing, gives(is(200, Spending{})), nil},
		{"GET", "/v1/tools", user, "listTools", "List the server's tools", (*Server).listTools,
			pages, gives(is(200, List[Tool]{})), badQuery},

		{"POST", "/v1/keys", admin, "createKey", "Make an API key", (*Server).createKey,
			takes(contract.CreateKey{}), gives(is(201, NewAPIKey{})), with(bodyFaults, agent.KindStorageFull)},
		{"GET", "/v1/keys", admin, "listKeys", "List the API keys, oldest first", (*Server).listKeys,
			pages, gives(is(200, List[APIKey]{})), badQuery},
		{"DELETE", "/v1/keys/{keyId}", admin, "revokeKey", "Revoke an API key", (*Server).revokeKey,
			input{query: []string{"force"}}, gives(is(200, APIKey{})), with(missing, badQuery...)},

		// The second door answers in OpenAI's forms, its faults too; see responses.go.
		{"POST", "/v1/responses", user, "createResponse", "Run a turn for an OpenAI client, or go on with one", (*Server).createResponse,
			openAI(), gives(is(200, anyJSON{}), eventBody), with(turnFaults, agent.KindUnknownMode)},
		{"GET", response, user, "getResponse", "Read a response, or follow its events", (*Server).getResponse,
			input{query: []string{"stream", "starting_after"}}, gives(is(200, anyJSON{}), eventBody), with(missing, badQuery...)},
		{"DELETE", response, user, "deleteResponse", "Erase a response that is alone in its conversation", (*Server).deleteResponse,
			nothing, gives(is(200, anyJSON{})), with(missing, agent.KindTurnConflict, agent.KindStorageFull)},
		{"POST", response + "/cancel", user, "cancelResponse", "End a response", (*Server).cancelResponse,
			nothing, gives(is(200, anyJSON{})), with(missing, agent.KindDraining, agent.KindStorageFull)},
		{"GET", response + "/input_items", user, "listInputItems", "List what a response answers", (*Server).listInputItems,
			input{query: []string{"items.limit", "order", "items.after"}}, gives(is(200, anyJSON{})), with(missing, badQuery...)},
		{"GET", "/v1/models", user, "listModels", "List the configured contexts as models", (*Server).listModels,
			nothing, gives(is(200, anyJSON{})), missing},
		{"GET", "/v1/models/{model}", user, "getModel", "Read a model", (*Server).getModel,
			nothing, gives(is(200, anyJSON{})), missing},

		{"GET", "/v1/audit", admin, "listAudit", "List who did what, newest first", (*Server).listAudit,
			audits, gives(is(200, List[AuditEntry]{})), with(missing, badQuery...)},
		{"DELETE", "/v1/users/{userId}", admin, "eraseUser", "Erase a user's sessions, and his name elsewhere", (*Server).eraseUser,
			nothing, gives(is(202, Erasure{})), with(missing, agent.KindStorageFull)},
		{"DELETE", "/v1/organisation", admin, "eraseOrganisation", "Erase everything that the organisation has", (*Server).eraseOrganisation,
			input{query: []string{"confirm"}}, gives(is(202, Erasure{})), with(missing, agent.KindInvalidRequest, agent.KindStorageFull)},
		{"GET", "/v1/erasures/{erasureId}", admin, "getErasure", "Read how far an erasure has come", (*Server).getErasure,
			nothing, gives(is(200, Erasure{})), missing},

		{"POST", "/v1/webhooks", admin, "createWebhook", "Have an address told of what happens", (*Server).createWebhook,
			takes(contract.CreateWebhook{}), gives(is(201, Webhook{})), with(bodyFaults, agent.KindNotFound, agent.KindLimitReached, agent.KindStorageFull)},
		{"GET", "/v1/webhooks", admin, "listWebhooks", "List the webhooks", (*Server).listWebhooks,
			nothing, gives(is(200, List[Webhook]{})), missing},
		{"GET", webhook, admin, "getWebhook", "Read a webhook", (*Server).getWebhook,
			nothing, gives(is(200, Webhook{})), missing},
		{"DELETE", webhook, admin, "deleteWebhook", "Delete a webhook with its deliveries", (*Server).deleteWebhook,
			nothing, gives(is(204)), with(missing, agent.KindStorageFull)},
		{"POST", webhook + "/rotate", admin, "rotateWebhook", "Give a webhook another secret; for a day the old one is good, too", (*Server).rotateWebhook,
			nothing, gives(is(200, Webhook{})), with(missing, agent.KindStorageFull)},
		{"POST", webhook + "/test", admin, "testWebhook", "Send a message to a webhook", (*Server).testWebhook,
			nothing, gives(is(202, Delivery{})), with(missing, agent.KindInvalidRequest, agent.KindStorageFull)},
		{"GET", webhook + "/deliveries", admin, "listDeliveries", "List what was or is to be sent to a webhook, newest first", (*Server).listDeliveries,
			pages, gives(is(200, List[Delivery]{})), with(missing, badQuery...)},

		{"GET", "/livez", public, "live", "Whether the process runs", (*Server).live, nothing, gives(is(200, Health{})), nil},
		{"GET", "/readyz", public, "ready", "Whether new turns are taken", (*Server).readiness, nothing, gives(is(200, Health{}), is(503, Health{})), nil},
		{"GET", "/metrics", operator, "metrics", "What the server has counted, in Prometheus' text format", (*Server).getMetrics, nothing, gives(textBody), missing},
		{"GET", "/openapi.json", public, "openapi", "This document", (*Server).getOpenAPI, nothing, gives(is(200, anyJSON{})), nil},
		{"GET", "/docs", public, "docs", "This document, for people", (*Server).getDocs, nothing, gives(htmlBody), nil},
	}
}

// The faults that routes share. Every route may also answer forbidden, not_found,
// method_not_allowed and internal, and a route that is not public unauthenticated,
// rate_limited and unavailable.
var (
	badQuery      = []agent.Kind{agent.KindInvalidRequest}
	missing       = []agent.Kind{agent.KindNotFound}
	bodyFaults    = []agent.Kind{agent.KindInvalidRequest, agent.KindPayloadTooLarge, agent.KindUnsupportedMediaType}
	createFaults  = with(bodyFaults, agent.KindUnknownMode, agent.KindUnknownContext, agent.KindSessionExists, agent.KindLimitReached, agent.KindStorageFull)
	changeFaults  = with(bodyFaults, agent.KindNotFound, agent.KindStorageFull)
	branchFaults  = with(changeFaults, agent.KindUnknownMode, agent.KindSessionExists, agent.KindTurnInProgress, agent.KindLimitReached)
	decideFaults  = with(changeFaults, agent.KindApprovalDecided, agent.KindTurnNotWaiting, agent.KindUnknownContext, agent.KindDraining)
	previewFaults = with(bodyFaults, agent.KindNotFound, agent.KindUnknownContext, agent.KindContextPinned)
	turnFaults    = with(previewFaults, agent.KindTurnConflict, agent.KindTurnInProgress, agent.KindTurnNotWaiting,
		agent.KindTurnCancelled, agent.KindTurnExpired, agent.KindToolResultsMismatch, agent.KindLimitReached, agent.KindRateLimited,
		agent.KindProviderFailed, agent.KindAnswerIncomplete, agent.KindProviderTimeout, agent.KindStorageFull, agent.KindDraining)
)

// class says who may call a route. The zero class is none: a route that nobody
// classified keeps the server from starting.
type class int

const (
	public   class = iota + 1 // anybody
	user                      // an authenticated caller
	operator                  // one who may see all of its organisation
	admin                     // one who says who may do what there
)

// role returns the least role that a route of the class takes.
func (c class) role() agent.Role {
	return map[class]agent.Role{user: agent.RoleUser, operator: agent.RoleOperator, admin: agent.RoleAdmin}[c]
}

// route is one row of the table.
type route struct {
	method, pattern string
	class           class
	id, summary     string
	handle          func(*Server, http.ResponseWriter, *http.Request) error
	in              input
	out             []output
	faults          []agent.Kind
}

// forPeople reports whether the route answers with a page, and so with its faults.
func (rt route) forPeople() bool { return rt.out[0].media == htmlBody.media }

// check keeps a row that is not whole from being served.
func (rt route) check() error {
	if rt.class < public || rt.class > admin {
		return fmt.Errorf("server: route %s %s is not classified", rt.method, rt.pattern)
	}
	if rt.handle == nil || rt.id == "" || rt.summary == "" || len(rt.out) == 0 {
		return fmt.Errorf("server: route %s %s is not whole", rt.method, rt.pattern)
	}
	return nil
}

// input is what a route takes.
type input struct {
	bodies   []any // values of the types that the body may have
	optional bool  // the body may be missing
	query    []string
	header   []string
}

// output is one kind of answer.
type output struct {
	status int
	media  string
	bodies []any // values of the types that the body may have
}

var (
	nothing = input{}
	pages   = input{query: []string{"limit", "cursor"}}
	audits  = input{query: []string{"session", "user", "action", "since", "until", "limit", "cursor"}}
	resumes = input{query: []string{"after"}, header: []string{"Last-Event-ID"}}

	eventBody = output{status: http.StatusOK, media: "text/event-stream"}
	htmlBody  = output{status: http.StatusOK, media: "text/html"}
	textBody  = output{status: http.StatusOK, media: "text/plain"}
)

// openAI is the input of the second door: a body in OpenAI's form.
func openAI() input {
	return input{bodies: []any{anyJSON{}}, header: []string{"Idempotency-Key"}}
}

func takes(bodies ...any) input    { return input{bodies: bodies} }
func may(body any) input           { return input{bodies: []any{body}, optional: true} }
func gives(out ...output) []output { return out }
func is(status int, bodies ...any) output {
	return output{status: status, media: "application/json", bodies: bodies}
}

// with returns kinds and more of them, in a list of its own.
func with(kinds []agent.Kind, more ...agent.Kind) []agent.Kind {
	return append(append([]agent.Kind{}, kinds...), more...)
}
