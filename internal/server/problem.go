package server

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
)

// Problem is a fault as clients see it: an RFC 9457 problem document, also as the
// problem member of a failed turn (decision 8).
type Problem struct {
	Type       string            `json:"type" doc:"urn:aptix:problem: and the code."`
	Title      string            `json:"title" doc:"The code in words; the same for every occurrence."`
	Status     int               `json:"status" doc:"The HTTP status of this fault, also where it is told inside another answer."`
	Detail     string            `json:"detail" doc:"What happened and what to do next, for people."`
	Code       agent.Kind        `json:"code" doc:"The stable name of the fault, for programs."`
	RequestID  string            `json:"requestId" doc:"The id under which the server's log tells more."`
	Violations []agent.Violation `json:"violations,omitempty" doc:"Every breach of the contract that the request holds."`
}

const problemType = "application/problem+json"

// meaning is what a kind of fault means in HTTP.
type meaning struct {
	status int
	title  string
}

// meanings is the one table that turns a kind into a status (api.md, Errors).
var meanings = map[agent.Kind]meaning{
	agent.KindInvalidRequest:       {http.StatusBadRequest, "The request breaks the contract"},
	agent.KindUnknownMode:          {http.StatusBadRequest, "Unknown mode"},
	agent.KindUnknownContext:       {http.StatusBadRequest, "Unknown agent or conversation context"},
	agent.KindUnauthenticated:      {http.StatusUnauthorized, "Authentication needed"},
	agent.KindForbidden:            {http.StatusForbidden, "Forbidden"},
	agent.KindNotFound:             {http.StatusNotFound, "Not found"},
	agent.KindMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	agent.KindSessionExists:        {http.StatusConflict, "The session exists already"},
	agent.KindTurnConflict:         {http.StatusConflict, "The turn exists with another body"},
	agent.KindTurnInProgress:       {http.StatusConflict, "Another turn is in progress"},
	agent.KindTurnNotWaiting:       {http.StatusConflict, "The turn waits for nothing"},
	agent.KindApprovalDecided:      {http.StatusConflict, "The approval was decided otherwise"},
	agent.KindTurnCancelled:        {http.StatusConflict, "The turn was cancelled"},
	agent.KindContextPinned:        {http.StatusConflict, "The session's context is pinned"},
	agent.KindTurnExpired:          {http.StatusGone, "The turn has expired"},
	agent.KindPayloadTooLarge:      {http.StatusRequestEntityTooLarge, "The request is too large"},
	agent.KindUnsupportedMediaType: {http.StatusUnsupportedMediaType, "Unsupported media type"},
	agent.KindToolResultsMismatch:  {http.StatusUnprocessableEntity, "The tool results do not match the calls"},
	agent.KindLimitReached:         {http.StatusUnprocessableEntity, "The turn reached a limit"},
	agent.KindRateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	agent.KindInternal:             {http.StatusInternalServerError, "Internal error"},
	agent.KindProviderFailed:       {http.StatusBadGateway, "The model provider failed"},
	agent.KindAnswerIncomplete:     {http.StatusBadGateway, "The model stopped before its answer was complete"},
	agent.KindProviderTimeout:      {http.StatusGatewayTimeout, "The model provider did not answer in time"},
	agent.KindStorageFull:          {http.StatusServiceUnavailable, "The store is full"},
	agent.KindDraining:             {http.StatusServiceUnavailable, "The server is going down"},
	agent.KindUnavailable:          {http.StatusServiceUnavailable, "The store is out of reach"},
}

// meaningOf returns what kind means, and for a kind that the table does not know
// what an internal error means.
func meaningOf(kind agent.Kind) (agent.Kind, meaning) {
	if m, ok := meanings[kind]; ok {
		return kind, m
	}
	return agent.KindInternal, meanings[agent.KindInternal]
}

// problemOf renders a fault for the client of one request. What an internal fault
// says is for the log only: nobody wrote it with a stranger in mind.
func problemOf(f agent.Fault, requestID string) Problem {
	kind, m := meaningOf(f.Kind)
	if kind == agent.KindInternal {
		f = agent.FaultOf(nil)
	}
	return Problem{
		Type: "urn:aptix:problem:" + string(kind), Title: m.title, Status: m.status,
		Detail: f.Message, Code: kind, RequestID: requestID, Violations: f.Violations,
	}
}

// sayWhen tells in the header after how long to try again, when that helps.
func sayWhen(h http.Header, err error, kind agent.Kind) {
	if after := retryAfter(err, kind); after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
}

// writeProblem answers with the problem that err is to the client.
func writeProblem(w http.ResponseWriter, err error, requestID string) {
	p := problemOf(agent.FaultOf(err), requestID)
	h := w.Header()
	sayWhen(h, err, p.Code)
	if p.Code == agent.KindUnauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body, jsonErr := marshal(p)
	if jsonErr != nil { // a Problem is strings and numbers
		body = json.RawMessage(`{"code":"internal"}`)
	}
	h.Set("Content-Type", problemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	// The client that is gone does not need to hear of it, and nobody else can act.
	_, _ = w.Write(body)
}
