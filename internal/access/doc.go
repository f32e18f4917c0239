// Package access decides which sessions are there for a caller. A user has the sessions
// that it created; those of others in its organisation do not exist for it, and are told
// in the same words as what does not exist for anybody. Operators and admins have all of
// the organisation.
//
// The doors of the server are given Turns and Sessions of this package in place of the
// pipeline and the session manager. They embed nothing, so that a method which a door needs
// is guarded or is not there. Whose request it is stands in its context (agent.WithCaller);
// without a caller everything is refused.
//
// A turn that begins is the one thing that is decided elsewhere, in pipeline.Execute: there
// the session is read in the same moment in which it is joined.
package access
