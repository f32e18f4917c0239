// Package postgres keeps the journal in a PostgreSQL database: the truth of an Aptix of
// many nodes. It is where a turn becomes durable (OpenTurn), where every transition of
// it is written (AppendSteps), and what any node resumes it from. Nodes meet nowhere
// else: a session's row is the lock of its turns, and unique indexes are the judges.
//
// Durability: a write that returned nil survives what the database survives, as its
// synchronous_commit and its standbys are set. A write that returned an error left
// nothing behind, unless the error is store.ErrUnknown.
//
// A write is one transaction. Those of a turn are one statement each, sent together with
// the lock that it needs, and so one round trip; a refusal takes a second one, to say
// why. A write that was begun is finished even when its caller gives up. When the
// connection breaks on the way to the commit, the write is looked for by its key and its
// content before it is tried again (Store.write).
//
// Reads go to the primary, like writes, and see every write that has returned.
//
// Many nodes: who runs a turn stands in its row, with an epoch that each new owner
// moves on (see Renew and Takeover). A write of an earlier epoch is refused with
// store.ErrFenced, so a node that was paused cannot write late. Times are those of the
// database's clock, never a node's.
//
// Transactions are READ COMMITTED, the server's default: a statement behind a lock sees
// what was written while it waited. A stricter default works too, at the price of
// conflicts that are tried again.
//
// A pooler in transaction mode may stand between: nothing here lives in a server
// session, no statement has a name, and nobody listens for notifications.
//
// Package store says what the methods mean that all keepers share, and storetest checks
// it.
package postgres

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
