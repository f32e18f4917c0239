// Package contract is the outermost step of a turn: it turns the bytes that a client
// sent into a value that the pipeline can trust, or into one error that lists every
// rule they break (AGN-034). It also holds the two answers that a turn can have.
//
// POST /v1/agent/execute takes exactly two scenarios, told apart by which members are
// there: a UserTurn, or a ToolContinuation, which has toolResults. Reading is strict.
// A member that the contract does not know, one that belongs to the server (the mode,
// provider state, tools) and one in another casing are refused; only the documents'
// own spelling is an alias, SessionId for sessionId, at every level.
//
// A body is parsed once into a tree of bounded size, and the tree is then read member
// by member. Each reader adds its faults to one list and goes on, so a client sees all
// of them in one answer, each with the JSON pointer as the client spelled it and with
// the id of the rule. Three faults end the reading at once, since nothing sensible can
// follow them: a body over its limit, malformed JSON, and a tree over its limits.
package contract
