package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Method says how passages are found.
type Method string

// The methods.
const (
	// Hybrid searches by words and by vectors and fuses the rankings; the default.
	Hybrid  Method = "hybrid"
	Lexical Method = "lexical"
	Vector  Method = "vector"
)

// RetrieverConfig holds the parts of a Retriever and its bounds. Store and Log are
// required; zero fields mean the default.
type RetrieverConfig struct {
	Store Store
	// Embedder makes the vector of a question; nil searches by words only.
	Embedder Embedder
	Log      *slog.Logger
	Method   Method
	// Chunks is how many passages a turn gets at most; 6.
	Chunks int
	// Bytes bounds their texts together; 20 KiB.
	Bytes int
	// Deadline bounds a retrieval; 2 s.
	Deadline time.Duration
}

// Retriever finds what a turn's model is shown. It is safe for concurrent use.
type Retriever struct {
	store    Store
	embedder Embedder
	log      *slog.Logger
	method   Method
	chunks   int
	bytes    int
	deadline time.Duration
}

// NewRetriever returns a Retriever, or an error when a part is missing.
func NewRetriever(c RetrieverConfig) (*Retriever, error) {
	r := &Retriever{store: c.Store, embedder: c.Embedder, log: c.Log, method: cmp.Or(c.Method, Hybrid),
		chunks: cmp.Or(c.Chunks, 6), bytes: cmp.Or(c.Bytes, 20<<10), deadline: cmp.Or(c.Deadline, 2*time.Second)}
	switch {
	case c.Store == nil || c.Log == nil:
		return nil, errors.New("rag: Store and Log are required")
	case r.method == Vector && c.Embedder == nil:
		return nil, errors.New("rag: a vector search needs an embedder")
	}
	return r, nil
}

// Question is what a turn asks.
type Question struct {
	Org   agent.OrgID
	Text  string
	Scope *agent.RAGScope // may be nil
	Hints Hints
}

// Context is what was found for a turn.
type Context struct {
	Chunks []Chunk
	// Warnings are for the user: what could not be searched.
	Warnings []string
}

// Sources names the chunks for an answer.
func (c Context) Sources() []agent.Source {
	var out []agent.Source
	for _, chunk := range c.Chunks {
		out = append(out, agent.Source{ID: chunk.ID, Path: chunk.Path, Lines: chunk.Lines})
	}
	return out
}

// Retrieve finds what to show the model. Retrieval is help and no condition: when it
// fails, or takes longer than its deadline, the turn goes on without it and the user
// is warned (decision D87).
func (r *Retriever) Retrieve(ctx context.Context, q Question) Context {
	ctx, cancel := context.WithTimeout(ctx, r.deadline)
	defer cancel()
	out, err := r.retrieve(ctx, q)
	if err != nil {
		r.log.ErrorContext(ctx, "retrieval failed; the turn goes on without it", "org", q.Org, "error", err)
		why := "it failed"
		if errors.Is(err, context.DeadlineExceeded) {
			why = fmt.Sprintf("it took longer than %s", r.deadline)
		}
		return Context{Warnings: []string{"The indexed documents could not be searched (" + why + "); the answer was given without them."}}
	}
	return out
}

func (r *Retriever) retrieve(ctx context.Context, q Question) (Context, error) {
	if strings.TrimSpace(q.Text) == "" {
		return Context{}, nil
	}
	indexes, err := r.store.Indexes(ctx, q.Org)
	if err != nil || len(indexes) == 0 {
		return Context{}, err
	}
	out := Context{Warnings: unknownKeys(q.Scope)}
	within, err := r.within(ctx, q)
	if err != nil || within != nil && len(within) == 0 {
		return out, err
	}
	// Deeper than what is shown, so that a passage which both rankings have can rise.
	search := Search{Org: q.Org, Terms: Terms(q.Text), Within: within, Most: 8 * r.chunks}
	ranking, warning, err := r.rank(ctx, search, indexes, q.Text)
	if err != nil {
		return out, err
	}
	if warning != "" {
		out.Warnings = append(out.Warnings, warning)
	}
	out.Chunks, err = r.show(ctx, q.Org, lift(ranking, newPatterns(q.Hints.Prefer)))
	return out, err
}

// within returns the files that scope and hints leave, nil when they leave all. They
// are judged here, file by file: no store ever sees a key or a value of a condition,
// so that none can become part of its language.
func (r *Retriever) within(ctx context.Context, q Question) ([]int64, error) {
	exclude := newPatterns(q.Hints.Exclude)
	if exclude.empty() && (q.Scope == nil || len(q.Scope.Conditions) == 0) {
		return nil, nil
	}
	files, err := r.store.Files(ctx, q.Org)
	if err != nil {
		return nil, err
	}
	out := []int64{}
	for _, f := range files {
		if Admits(q.Scope, f.meta()) && !exclude.match(f.Index, f.Path) {
			out = append(out, f.ID)
		}
	}
	return out, nil
}

// unknownKeys warns of conditions on keys that no file has.
func unknownKeys(s *agent.RAGScope) (warnings []string) {
	if s == nil {
		return nil
	}
	for _, c := range s.Conditions {
		if !slices.Contains(Keys(), c.Key) {
			warnings = append(warnings, fmt.Sprintf("ragScope: indexed documents have no %q; they have %s.", c.Key, strings.Join(Keys(), ", ")))
		}
	}
	return warnings
}

// rank runs the searches of the method. Where vectors cannot be searched and words can,
// the words are used and the warning says so.
func (r *Retriever) rank(ctx context.Context, s Search, indexes []Index, question string) (ranking []Hit, warning string, err error) {
	var words []Hit
	if r.method != Vector {
		if words, err = r.store.Lexical(ctx, s); err != nil {
			return nil, "", err
		}
	}
	if r.method == Lexical || r.embedder == nil {
		return words, "", nil
	}
	if other := madeByAnother(indexes, r.embedder.Name()); other != nil {
		r.log.ErrorContext(ctx, "an index cannot be searched by vectors", "org", s.Org, "error", other)
		warning = fmt.Sprintf("Index %q was not searched by meaning: it was built with another embedder.", other.Index)
	}
	near, err := r.nearest(ctx, s, question)
	switch {
	case err != nil && r.method == Vector:
		return nil, "", err
	case err != nil:
		r.log.ErrorContext(ctx, "vectors could not be searched; words were", "org", s.Org, "error", err)
		return words, "The indexed documents were searched by words only; searching by meaning failed.", nil
	}
	return fuse(words, near), warning, nil
}

// madeByAnother returns what is wrong with the first index that another embedder made.
func madeByAnother(indexes []Index, embedder string) *MismatchError {
	for _, x := range indexes {
		if x.Embedder != embedder {
			return &MismatchError{"embedder", named(x.Embedder), embedder, x.Name}
		}
	}
	return nil
}

// nearest searches the indexes that the embedder made.
func (r *Retriever) nearest(ctx context.Context, s Search, question string) ([]Hit, error) {
	// Half of the time, so that an embedder which does not answer leaves some for what
	// the words have found.
	embedding, cancel := context.WithTimeout(ctx, r.deadline/2)
	defer cancel()
	vectors, err := r.embedder.Embed(embedding, []string{question})
	if err != nil {
		return nil, fmt.Errorf("embed the question: %w", err)
	}
	s.Vector, s.Embedder = vectors[0], r.embedder.Name()
	if !slices.ContainsFunc(s.Vector, func(f float32) bool { return f != 0 }) {
		return nil, nil // nothing in it to compare
	}
	return r.store.Nearest(ctx, s)
}

// show takes the best of a ranking, as many as fit.
func (r *Retriever) show(ctx context.Context, org agent.OrgID, ranking []Hit) ([]Chunk, error) {
	var ids []int64
	for _, h := range ranking[:min(len(ranking), r.chunks)] {
		ids = append(ids, h.ID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := r.store.Passages(ctx, org, ids)
	if err != nil {
		return nil, err
	}
	var out []Chunk
	left := r.bytes
	for _, f := range found {
		if len(f.Text) > left {
			continue // a shorter one may still fit
		}
		left -= len(f.Text)
		out = append(out, Chunk{ID: fmt.Sprintf("ctx_%d", len(out)+1), Path: f.Path,
			Lines: fmt.Sprintf("%d-%d", f.First, f.Last), Language: f.Language, Text: f.Text})
	}
	return out, nil
}
