// Package tool holds what a turn needs to know about tools: the server tools that
// this process can run, the tools that a client registered on its session, and the
// set of both that a turn works with.
//
// A turn merges the client's tools with those of its mode once, before the model is
// asked for the first time (AGN-011 §4.3, §4.4). The resulting Set is frozen: it goes
// with every model call of the turn, and it tells which calls run here and which are
// handed to the client. The tools themselves live in package builtin.
package tool
