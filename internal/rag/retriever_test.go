package rag_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/rag"
)

// shelf is a store of passages with fixed rankings; what it does when it is asked can be
// replaced. Real stores have a suite of their own.
type shelf struct {
	rag.Store
	indexes     []rag.Index
	words, near []int64
	size        int // of each passage; a few bytes when zero
	lexical     func(context.Context) error
	asked       []rag.Search
}

func (s *shelf) Indexes(context.Context, agent.OrgID) ([]rag.Index, error) { return s.indexes, nil }

func (s *shelf) hits(ids []int64) (out []rag.Hit) {
	for _, id := range ids {
		out = append(out, rag.Hit{ID: id, Index: "docs", Path: fmt.Sprintf("p%d.md", id)})
	}
	return out
}

func (s *shelf) Lexical(ctx context.Context, q rag.Search) ([]rag.Hit, error) {
	s.asked = append(s.asked, q)
	if s.lexical != nil {
		if err := s.lexical(ctx); err != nil {
			return nil, err
		}
	}
	return s.hits(s.words), nil
}

func (s *shelf) Nearest(context.Context, rag.Search) ([]rag.Hit, error) { return s.hits(s.near), nil }

func (s *shelf) Passages(ctx context.Context, _ agent.OrgID, ids []int64) (out []rag.Found, err error) {
	for _, h := range s.hits(ids) {
		out = append(out, rag.Found{Hit: h, First: 1, Last: 9, Text: strings.Repeat("x", max(s.size, 1))})
	}
	return out, ctx.Err()
}

// embed is an embedder of one function.
type embed func(context.Context) ([]float32, error)

func (embed) Name() string { return "test" }

func (e embed) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	v, err := e(ctx)
	return [][]float32{v}, err
}

func works(context.Context) ([]float32, error) { return []float32{1}, nil }

func retriever(t *testing.T, c rag.RetrieverConfig) *rag.Retriever {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	r, err := rag.NewRetriever(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func paths(c rag.Context) (out []string) {
	for _, chunk := range c.Chunks {
		out = append(out, chunk.Path)
	}
	return out
}

func docs() []rag.Index { return []rag.Index{{Name: "docs", Embedder: "test", Dimension: 1}} }

func TestRetrieve_ByEachMethod(t *testing.T) {
	s := &shelf{indexes: docs(), words: []int64{1, 2, 3}, near: []int64{4, 3, 2}}
	for method, want := range map[rag.Method][]string{
		rag.Lexical: {"p1.md", "p2.md", "p3.md"},
		rag.Vector:  {"p4.md", "p3.md", "p2.md"},
		// 2 and 3 are in both; then those that are first in one of them, by id.
		rag.Hybrid: {"p2.md", "p3.md", "p1.md", "p4.md"},
	} {
		got := retriever(t, rag.RetrieverConfig{Store: s, Embedder: embed(works), Method: method}).Retrieve(t.Context(), rag.Question{Text: "where"})
		if diff := cmp.Diff(paths(got), want); diff != "" || got.Warnings != nil {
			t.Errorf("%s: -got +want\n%s%v", method, diff, got.Warnings)
		}
	}
}

func TestRetrieve_NamesItsSources(t *testing.T) {
	s := &shelf{indexes: docs(), words: []int64{7, 8}}
	got := retriever(t, rag.RetrieverConfig{Store: s}).Retrieve(t.Context(), rag.Question{Text: "where"})
	want := []agent.Source{{ID: "ctx_1", Path: "p7.md", Lines: "1-9"}, {ID: "ctx_2", Path: "p8.md", Lines: "1-9"}}
	if diff := cmp.Diff(got.Sources(), want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestRetrieve_IsBounded(t *testing.T) {
	s := &shelf{indexes: docs(), words: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, size: 100}
	for bounds, want := range map[[2]int]int{{3, 1000}: 3, {9, 350}: 3, {9, 50}: 0, {0, 0}: 6} {
		got := retriever(t, rag.RetrieverConfig{Store: s, Chunks: bounds[0], Bytes: bounds[1]}).Retrieve(t.Context(), rag.Question{Text: "where"})
		if len(got.Chunks) != want {
			t.Errorf("%v: %d chunks, want %d", bounds, len(got.Chunks), want)
		}
	}
}

func TestRetrieve_PrefersWhatTheModeNames(t *testing.T) {
	s := &shelf{indexes: docs(), words: []int64{1, 2, 3}}
	got := retriever(t, rag.RetrieverConfig{Store: s}).Retrieve(t.Context(), rag.Question{Text: "where", Hints: rag.Hints{Prefer: []string{"p3.*"}}})
	if diff := cmp.Diff(paths(got), []string{"p3.md", "p1.md", "p2.md"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

// A turn is never lost to retrieval (decision D87).
func TestRetrieve_FaultsBecomeWarnings(t *testing.T) {
	prove.Rule(t, "AGN034-4.4-d")
	broken := errors.New("broken at /secret/path")
	fails := func(context.Context) error { return broken }
	dead := embed(func(context.Context) ([]float32, error) { return nil, broken })
	hangs := embed(func(ctx context.Context) ([]float32, error) { <-ctx.Done(); return nil, ctx.Err() })
	other := []rag.Index{{Name: "old", Embedder: "another", Dimension: 1}}
	for name, tc := range map[string]struct {
		store    shelf
		embedder rag.Embedder
		method   rag.Method
		found    int
		warning  string
	}{
		"the store fails":                    {shelf{indexes: docs(), lexical: fails}, embed(works), rag.Hybrid, 0, "could not be searched (it failed)"},
		"the store hangs":                    {shelf{indexes: docs(), lexical: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, embed(works), rag.Hybrid, 0, "took longer than 2s"},
		"the embedder fails":                 {shelf{indexes: docs(), words: []int64{1}}, dead, rag.Hybrid, 1, "by words only"},
		"the embedder hangs":                 {shelf{indexes: docs(), words: []int64{1}}, hangs, rag.Hybrid, 1, "by words only"},
		"the embedder fails, and words none": {shelf{indexes: docs(), words: []int64{1}}, dead, rag.Vector, 0, "could not be searched (it failed)"},
		"another embedder made it":           {shelf{indexes: other, words: []int64{1}}, embed(works), rag.Hybrid, 1, `Index "old" was not searched by meaning`},
		"nothing is indexed":                 {shelf{lexical: fails}, dead, rag.Hybrid, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := retriever(t, rag.RetrieverConfig{Store: &tc.store, Embedder: tc.embedder, Method: tc.method})
				got := r.Retrieve(t.Context(), rag.Question{Text: "where"})
				if len(got.Chunks) != tc.found {
					t.Errorf("%d chunks, want %d", len(got.Chunks), tc.found)
				}
				warnings := strings.Join(got.Warnings, "\n")
				if !strings.Contains(warnings, tc.warning) || tc.warning == "" && warnings != "" || strings.Contains(warnings, "secret") {
					t.Errorf("warnings %q, want %q", warnings, tc.warning)
				}
			})
		})
	}
}

func TestRetrieve_WarnsOfKeysThatNoFileHas(t *testing.T) {
	s := &shelf{indexes: docs(), words: []int64{1}, Store: noFiles{}}
	got := retriever(t, rag.RetrieverConfig{Store: s}).Retrieve(t.Context(), rag.Question{Text: "where", Scope: scope(condition("branch", "!=", "x"))})
	want := []string{`ragScope: indexed documents have no "branch"; they have index, repo, path, language.`}
	if diff := cmp.Diff(got.Warnings, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if len(s.asked) != 0 {
		t.Error("nothing is in scope, and it was searched")
	}
}

type noFiles struct{ rag.Store }

func (noFiles) Files(context.Context, agent.OrgID) ([]rag.File, error) { return nil, nil }

func TestNewRetriever_Refuses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, c := range []rag.RetrieverConfig{{Log: log}, {Store: &shelf{}}, {Store: &shelf{}, Log: log, Method: rag.Vector}} {
		if _, err := rag.NewRetriever(c); err == nil {
			t.Errorf("NewRetriever(%+v) is taken", c)
		}
	}
}
