// Package pgindex keeps indexes for retrieval in PostgreSQL, for many nodes, beside the
// journal's tables and apart from them. It searches by words, with PostgreSQL's full text.
// It keeps no vectors, since those would need an extension that not every server has: an
// index in it has no embedder, and a hybrid search finds what a lexical one does.
//
// Every row and every query names the organisation.
package pgindex
