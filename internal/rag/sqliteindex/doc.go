// Package sqliteindex keeps indexes for retrieval in a SQLite file of its own, beside the
// journal's: full text in FTS5, vectors as sqlite-vec compares them. What is in it can be
// made again at any time, so it is never in the way of the journal: it has no
// migrations, is not in a backup, and a turn goes on without it. 'aptix index' writes it
// while a server reads it.
//
// Every row and every query names the organisation, and each organisation has a
// full-text table of its own: what others have indexed changes neither what is found nor
// the order of it.
package sqliteindex
