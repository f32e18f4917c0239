package responsesapi

import (
	"github.com/aptixhq/aptix/internal/agent"
)

// Error is a fault with what OpenAI's form of an error says beyond ours.
type Error struct {
	err         *agent.Error
	param, code string
}

// Error renders the fault for logs.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the fault, which has the kind and the message.
func (e *Error) Unwrap() error { return e.err }

// Param names the parameter that is wrong; may be empty.
func (e *Error) Param() string { return e.param }

// Code is the fault's name for programs, as OpenAI's clients know it.
func (e *Error) Code() string { return e.code }

// The codes that are not the kind of the fault.
const (
	codeInvalidValue     = "invalid_value"
	codeMissing          = "missing_required_parameter"
	codeUnknownParam     = "unknown_parameter"
	codeUnsupported      = "unsupported_parameter"
	codeUnsupportedValue = "unsupported_value"
	codeModelNotFound    = "model_not_found"
	codePreviousNotFound = "previous_response_not_found"
	codeNoToolOutput     = "tool_output_mismatch"
	codeNotAlone         = "response_in_conversation"
)

// refuse returns an invalid request. param is the parameter as the client wrote it.
func refuse(param, code, format string, args ...any) error {
	return &Error{err: agent.Errorf(agent.KindInvalidRequest, format, args...), param: param, code: code}
}

// about names the parameter of a fault from further in.
func about(param string, err error) error {
	f := agent.FaultOf(err)
	if f.Kind == agent.KindInternal {
		return err
	}
	return &Error{err: (&agent.Error{Fault: f}).Because(err), param: param, code: string(f.Kind)}
}

func errNoResponse(id string) error {
	return agent.Errorf(agent.KindNotFound, "There is no response %q.", clip(id, 80))
}

// clip shortens text to at most n characters.
func clip(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
