// Package builtin holds the server tools that come with Aptix. Each is a pair: a Go
// file with what it does, and a Markdown file with the words by which the model
// knows when to use it. The reasoner runs them in the middle of a turn.
//
// No tool here knows a session, a user or an organisation from its arguments: those
// come with the execution context (TUL-007 §3.3).
package builtin

// failure is what the model is told when a tool says no. It is a sentence for a
// reader, unlike an error that others wrap.
type failure string

func (f failure) Error() string { return string(f) }
