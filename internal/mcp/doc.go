// Package mcp makes the tools of MCP servers (Model Context Protocol) tools of this
// server. A turn meets it as any other tool: the set of the turn holds definitions, the
// reasoner executes calls.
//
// # What is offered
//
// A server is foreign, and so are the descriptions and schemas that it declares: they are
// text that a model obeys. What a model is shown is therefore never what a server says
// now, but what somebody approved: the definitions in the Lock, a file beside the
// configuration. A server is asked for its list when it starts, when it says that the list
// has changed, and again once the last answer is a minute old; always before a call is
// sent. A tool whose definition is not the approved one any more is withdrawn until it is
// approved anew, or until the server declares again what was approved. Since the
// definitions are in the lock, a turn needs no server to be up, and starts none.
//
// # Servers
//
// A server is started, or connected to, by the first call of one of its tools, and again
// by the first call after it was lost, at most as often as Backoff allows. A local one is
// a child in a process group of its own: it has nothing of the environment but what the
// configuration names, what it writes to stderr goes to the log, and it ends with this
// process. A remote one is spoken to over HTTPS, or over HTTP on this machine; no
// redirect is followed, so that the headers go nowhere else.
//
// # Calls
//
// A call is sent once. When the connection is lost or the time is up before the answer
// came, the outcome is unknown and the model is told so (tool.UnknownOutcome); it is
// never sent again. Whatever a server sends is bounded: a message, a list, a stream, a
// line of stderr. Order: calls run side by side, as turns make them. A server that asks
// for something, a completion or a user's input, is refused.
package mcp
