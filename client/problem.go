package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code is the stable name of a fault, for programs.
type Code string

// The codes that a program most often acts on. The server's OpenAPI document has all.
const (
	CodeInvalidRequest      Code = "invalid_request"
	CodeUnknownMode         Code = "unknown_mode"
	CodeUnknownContext      Code = "unknown_context"
	CodeUnauthenticated     Code = "unauthenticated"
	CodeForbidden           Code = "forbidden"
	CodeNotFound            Code = "not_found"
	CodeSessionExists       Code = "session_exists"
	CodeTurnConflict        Code = "turn_conflict"
	CodeTurnInProgress      Code = "turn_in_progress"
	CodeTurnNotWaiting      Code = "turn_not_waiting"
	CodeApprovalDecided     Code = "approval_decided"
	CodeTurnCancelled       Code = "turn_cancelled"
	CodeTurnExpired         Code = "turn_expired"
	CodeContextPinned       Code = "context_pinned"
	CodePayloadTooLarge     Code = "payload_too_large"
	CodeToolResultsMismatch Code = "tool_results_mismatch"
	CodeLimitReached        Code = "limit_reached"
	CodeRateLimited         Code = "rate_limited"
	CodeProviderFailed      Code = "provider_failed"
	CodeProviderTimeout     Code = "provider_timeout"
	CodeAnswerIncomplete    Code = "answer_incomplete"
	CodeDraining            Code = "draining"
	CodeUnavailable         Code = "unavailable"
	CodeInternal            Code = "internal"
)

// Problem is the server's refusal or failure (RFC 9457). An answer that is not a
// problem document, from a proxy say, has a Status and no Code.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title,omitempty"`
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	Code   Code   `json:"code,omitempty"`
	// RequestID finds the request in the server's log.
	RequestID string `json:"requestId,omitempty"`
	// Violations are all the breaches of the contract, for CodeInvalidRequest and
	// CodeToolResultsMismatch.
	Violations []Violation `json:"violations,omitempty"`
	// RetryAfter is how long the server asks to wait; zero says nothing.
	RetryAfter time.Duration `json:"-"`
}

// Violation is one breach of the contract.
type Violation struct {
	// Pointer is the JSON pointer of the offending member.
	Pointer string `json:"pointer"`
	// Rule is the id of the broken rule.
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Error says what went wrong, each violation on a line of its own.
func (p *Problem) Error() string {
	var b strings.Builder
	switch {
	case p.Detail != "":
		b.WriteString(p.Detail)
	case p.Title != "":
		b.WriteString(p.Title)
	default:
		fmt.Fprintf(&b, "HTTP %d", p.Status)
	}
	if p.Code != "" {
		fmt.Fprintf(&b, " (%s)", p.Code)
	}
	for _, v := range p.Violations {
		fmt.Fprintf(&b, "\n  %s: %s", v.Pointer, v.Message)
		if v.Rule != "" {
			fmt.Fprintf(&b, " [%s]", v.Rule)
		}
	}
	return b.String()
}

// CodeOf returns the code of the Problem in err, "" when there is none.
func CodeOf(err error) Code {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// problemBytes bounds what is read of a refusal.
const problemBytes = 1 << 20

// problemOf reads the problem document of a response that is not a good one.
func problemOf(res *http.Response) *Problem {
	p := &Problem{}
	b, err := io.ReadAll(io.LimitReader(res.Body, problemBytes))
	if err != nil || json.Unmarshal(b, p) != nil {
		// An HTML page of a proxy helps nobody: name the status, drop the page.
		p = &Problem{Detail: fmt.Sprintf("the server answered %s without saying why", res.Status)}
	}
	if p.Status == 0 {
		p.Status = res.StatusCode
	}
	p.RetryAfter = parseRetryAfter(res.Header.Get("Retry-After"))
	return p
}

// parseRetryAfter reads both forms of the header; what it cannot read says nothing.
func parseRetryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(min(max(n, 0), 24*60*60)) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
