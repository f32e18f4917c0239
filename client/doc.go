// Package client talks to an Aptix server. A program opens a session, sends user
// turns, runs the tools that it registered when a turn waits for them, and hands the
// results back:
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080"})
//	answer, err := c.Execute(ctx, client.UserTurn{Instruction: "What can you do?"})
//
// Answer.Mode is the authoritative mode of the session (AGN-011 §3.4). There is
// nothing to send back: a request never carries a mode (AGN-034 §3), the session does.
//
// # Lost connections
//
// A turn belongs to the server and goes on when the connection breaks. The TurnID is
// its idempotency key, so a call that lost its connection is sent again with the same
// ids and the same body, a bounded number of times, and never runs a turn twice.
// Creating a session and deleting one are not repeated.
//
// # Streams
//
// Stream, StreamContinue and Events deliver the events of one turn in order, without
// gaps and without repetition: a connection that breaks is taken up again after the
// last event that was delivered. A slow reader slows nobody else; the server may cut it
// off, which looks like any other broken connection. After a restart of the server a
// turn.resumed event tells from which sequence on shown text is void. A stream ends
// after its terminal event, or with one error.
//
// The package needs nothing but the standard library.
package client
