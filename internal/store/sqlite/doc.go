// Package sqlite keeps the journal in one SQLite file: the truth of an embedded
// Aptix. It is where a turn becomes durable (OpenTurn), where every transition of
// it is written (AppendSteps), and what it is resumed from after a crash.
//
// Durability: a write that returned nil survives a crash of the process and of the
// machine (WAL, synchronous=FULL). A write that returned an error left nothing
// behind.
//
// Order: there is one writer, so writes stand in the order in which they returned.
// Writers that come at the same time share a commit, and so a sync of the disk;
// each still succeeds or fails alone. A caller may give up while it waits for the
// writer; a write that has begun is finished, so its outcome is never unknown.
//
// Readers never wait for the writer and see every write that has returned. What turns ask for
// most is not read at all: memory has it, which the writer keeps true.
//
// Space: what is erased is overwritten, or given back to the system, by upkeep. When
// the disk is full nothing new is taken (Room), what is under way uses space that was
// set aside for it (reserve), and it is over by itself.
//
// One process at a time opens a file as its server; Backup copies it meanwhile. Package store says what the
// methods mean that all keepers share, and storetest checks it.
package sqlite

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
