package rag

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Index is a folder that can be searched, of one organisation.
type Index struct {
	// ID is the store's; zero in an index that is not stored yet.
	ID   int64
	Org  agent.OrgID
	Name string
	// Repo is the repository that the folder belongs to, for scopes.
	Repo string
	// Root is the folder as it was given; only the indexer reads it.
	Root string
	// Embedder names what made the vectors, and Dimension is their length. An index
	// without vectors has neither.
	Embedder  string
	Dimension int
	UpdatedAt time.Time
}

// File is an indexed file; scopes and hints judge it.
type File struct {
	ID int64
	// Index and Repo are the names of its Index.
	Index, Repo string
	// Path is below the index's root, with slashes.
	Path     string
	Language string // may be empty
}

// The keys that a scope's condition can name (AGN-034 §4.4). Another one is a key
// that no file has.
const (
	KeyIndex    = "index"
	KeyRepo     = "repo"
	KeyPath     = "path"
	KeyLanguage = "language"
)

// Keys lists the keys that a scope's condition can name.
func Keys() []string { return []string{KeyIndex, KeyRepo, KeyPath, KeyLanguage} }

// meta is the file as Admits judges it.
func (f File) meta() map[string][]string {
	m := map[string][]string{KeyIndex: {f.Index}, KeyRepo: {f.Repo}, KeyPath: {f.Path}}
	if f.Language != "" {
		m[KeyLanguage] = []string{f.Language}
	}
	return m
}

// Document is a file as it goes into an index.
type Document struct {
	Path string
	// SHA256 is the hash of the whole file, by which a change is noticed.
	SHA256   string
	Language string
	Passages []Passage
}

// Passage is a piece of a document that is found as one.
type Passage struct {
	// First and Last are its lines, counted from 1.
	First, Last int
	Text        string
	// Vector is its embedding, normalised; nil in an index without vectors.
	Vector []float32
}

// Hit is a passage that was found.
type Hit struct {
	// ID is the store's id of the passage; where nothing else decides, the lower one
	// comes first.
	ID          int64
	Index, Path string
}

// Found is a passage with its text.
type Found struct {
	Hit
	Language    string
	First, Last int
	Text        string
}

// Search is one question to a store. Only what belongs to Org is ever found.
type Search struct {
	Org agent.OrgID
	// Terms are what a lexical search looks for, any of them (see Terms).
	Terms []string
	// Vector is what a vector search looks for, among the indexes of that embedder.
	Vector   []float32
	Embedder string
	// Within are the files to look in, by id; nil is all of them.
	Within []int64
	// Most bounds the hits.
	Most int
}

// Store keeps indexes and is searched. Every order is total: the same question to the
// same data has the same answer.
type Store interface {
	// Indexes lists the indexes of an organisation, by name.
	Indexes(ctx context.Context, org agent.OrgID) ([]Index, error)
	// Files lists the files of an organisation, in all its indexes.
	Files(ctx context.Context, org agent.OrgID) ([]File, error)
	// Lexical returns the passages that have the terms, the best first.
	Lexical(ctx context.Context, s Search) ([]Hit, error)
	// Nearest returns the passages whose vectors are the nearest, the nearest first.
	// A store without vectors returns ErrNoVectors.
	Nearest(ctx context.Context, s Search) ([]Hit, error)
	// Passages returns the passages of an organisation with these ids, in that order;
	// one that has gone meanwhile is left out.
	Passages(ctx context.Context, org agent.OrgID, ids []int64) ([]Found, error)
}

// Keeper is a Store that indexes can be written to. Every call is one transaction.
type Keeper interface {
	Store
	// Begin makes the index, or finds it, and returns it as it is stored. One that
	// another embedder made, or of another root, is a *MismatchError.
	Begin(ctx context.Context, x Index) (Index, error)
	// Count returns how many files and passages are in an index.
	Count(ctx context.Context, x Index) (files, chunks int, err error)
	// Hashes returns the hash of each file of an index, by path.
	Hashes(ctx context.Context, x Index) (map[string]string, error)
	// Put writes documents, each in the place of what its path had.
	Put(ctx context.Context, x Index, docs []Document) error
	// Drop takes files out.
	Drop(ctx context.Context, x Index, paths []string) error
	// Remove removes an index; ErrNoIndex says that there is none of that name.
	Remove(ctx context.Context, org agent.OrgID, name string) error
	// RemoveAll removes all indexes of an organisation and returns how many.
	RemoveAll(ctx context.Context, org agent.OrgID) (int, error)
	Close() error
}

// ErrNoVectors says that a store keeps no vectors.
var ErrNoVectors = errors.New("the store keeps no vectors; only words are searched")

// ErrNoIndex says that an organisation has no index of a name.
var ErrNoIndex = errors.New("there is no such index")

// MismatchError says that an index does not fit what is to go into it, or be asked of
// it.
type MismatchError struct {
	// What differs: embedder, dimension or root.
	What, Has, Wants string
	Index            string
}

// Error says what differs and what to do.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("index %q has %s %s, not %s; build it anew with --rebuild, or choose another --name", e.Index, e.What, e.Has, e.Wants)
}

// Fits returns a *MismatchError when x, as it is stored, cannot take what want would
// put into it.
func (x Index) Fits(want Index) error {
	switch {
	case x.Root != want.Root:
		return &MismatchError{"root", x.Root, want.Root, x.Name}
	case x.Embedder != want.Embedder:
		return &MismatchError{"embedder", named(x.Embedder), named(want.Embedder), x.Name}
	case x.Dimension != want.Dimension:
		return &MismatchError{"dimension", fmt.Sprint(x.Dimension), fmt.Sprint(want.Dimension), x.Name}
	}
	return nil
}

func named(embedder string) string {
	if embedder == "" {
		return "none"
	}
	return embedder
}

// Embedder turns texts into vectors: texts that mean much the same lie close together.
type Embedder interface {
	// Name says which vectors can be compared: those of the same name.
	Name() string
	// Embed returns a vector of length 1 for each text; the zero vector says that there
	// is nothing to compare.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
