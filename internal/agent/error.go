package agent

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the stable code of a fault, for programs. One table in the server turns
// it into an HTTP status.
type Kind string

// Every kind of fault that a client can meet.
const (
	KindInvalidRequest       Kind = "invalid_request"
	KindUnknownMode          Kind = "unknown_mode"
	KindUnknownContext       Kind = "unknown_context"
	KindUnauthenticated      Kind = "unauthenticated"
	KindForbidden            Kind = "forbidden"
	KindNotFound             Kind = "not_found"
	KindMethodNotAllowed     Kind = "method_not_allowed"
	KindSessionExists        Kind = "session_exists"
	KindTurnConflict         Kind = "turn_conflict"
	KindTurnInProgress       Kind = "turn_in_progress"
	KindTurnNotWaiting       Kind = "turn_not_waiting"
	KindApprovalDecided      Kind = "approval_decided"
	KindTurnCancelled        Kind = "turn_cancelled"
	KindTurnExpired          Kind = "turn_expired"
	KindContextPinned        Kind = "context_pinned"
	KindPayloadTooLarge      Kind = "payload_too_large"
	KindUnsupportedMediaType Kind = "unsupported_media_type"
	KindToolResultsMismatch  Kind = "tool_results_mismatch"
	KindLimitReached         Kind = "limit_reached"
	KindRateLimited          Kind = "rate_limited"
	KindProviderFailed       Kind = "provider_failed"
	KindProviderTimeout      Kind = "provider_timeout"
	KindAnswerIncomplete     Kind = "answer_incomplete"
	KindStorageFull          Kind = "storage_full"
	KindDraining             Kind = "draining"
	KindUnavailable          Kind = "unavailable"
	KindInternal             Kind = "internal"
)

// Violation is one breach of the contract.
type Violation struct {
	// Pointer is the JSON pointer (RFC 6901) of the offending member.
	Pointer string `json:"pointer"`
	// Rule is the id of the broken rule, such as AGN034-2.1-f.
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Fault is the part of an error that a client may see, and that the journal keeps.
type Fault struct {
	Kind       Kind        `json:"code"`
	Message    string      `json:"detail"`
	Violations []Violation `json:"violations,omitempty"`
	// Reason is the provider's word for why an answer is incomplete, max_output_tokens
	// or content_filter; empty for every other fault.
	Reason string `json:"reason,omitempty"`
	// RetryAfter tells the client how long to wait, from the moment of the fault on;
	// zero says nothing.
	RetryAfter time.Duration `json:"retryAfterNs,omitempty"`
}

// Error is a Fault with what lies behind it, which stays in the log.
type Error struct {
	Fault
	Err error
}

// Errorf returns an error of a kind. Its text is for people and says what to do
// next.
func Errorf(kind Kind, format string, args ...any) *Error {
	e := &Error{Fault: Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}}
	return e
}

// Because attaches the inner error, which is logged and never shown.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Error renders the message and what lies behind it, for logs.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

// Unwrap returns the inner error.
func (e *Error) Unwrap() error { return e.Err }

// NoSession is what everybody says of a session that is not there, so that nobody can tell
// why it is not.
func NoSession(id SessionID) error {
	return Errorf(KindNotFound, "There is no session %q. Check the id, or list the sessions to see which there are.", id)
}

// NoTurn is NoSession for a turn.
func NoTurn(k TurnKey) error {
	return Errorf(KindNotFound, "There is no turn %q in session %q. Check the ids, or list the session's turns.", k.Turn, k.Session)
}

// KindOf returns the kind of err, KindInternal when it has none.
func KindOf(err error) Kind {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// FaultOf returns what a client may see of err: its Fault, or a bare internal one.
func FaultOf(err error) Fault {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Fault
	}
	return Fault{Kind: KindInternal, Message: "Something went wrong on the server; its log has the details under this request id."}
}
