// Package torture holds campaigns: a server process is killed at any time, and at every
// named place, while many sessions are at work, and started again. Afterwards nothing
// that was acknowledged may be lost, no tool that may run once has run twice, and every
// turn has come to its end.
//
// Others do the same to several nodes on one PostgreSQL: each is killed, paused and cut
// off, the database changes its primary, NATS is stopped, nodes are restarted in turn.
//
// The tests run a short form; make torture runs the long one.
package torture
