// Package store holds what every keeper of the journal speaks: the units of
// writing (NewTurn, Append), pages and cursors, the errors a writer meets, and the
// form in which a step is stored. The keepers are its subfolders, named by
// technology, and storetest is the one behaviour suite that all of them pass.
//
// In a turn the store comes twice: OpenTurn makes a user turn durable before
// anything else sees it, and every transition after that is one AppendSteps. The
// journal in the store is the turn's only truth; whatever else knows about a turn
// can be rebuilt from it.
//
// Interfaces to a keeper are declared by its users (pipeline, session), with the
// methods they use.
package store
