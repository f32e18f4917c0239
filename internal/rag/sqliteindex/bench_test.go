package sqliteindex_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

// BenchmarkRetrieve measures what a retrieval costs a turn, by size of the index and by
// method, and with a scope that leaves a tenth of the files.
func BenchmarkRetrieve(b *testing.B) {
	tenth := &agent.RAGScope{Conditions: []agent.RAGCondition{{Key: rag.KeyPath, Operator: agent.RAGContains, Values: []string{"7.go"}}}}
	for _, chunks := range []int{10_000, 100_000} {
		path := filepath.Join(b.TempDir(), "index.db")
		store := open(b, path)
		began := time.Now()
		words := grow(b, store, chunks)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("%d chunks: made in %s, %d MiB", chunks, time.Since(began).Round(time.Millisecond), info.Size()>>20)
		for _, method := range []rag.Method{rag.Lexical, rag.Vector, rag.Hybrid} {
			for name, scope := range map[string]*agent.RAGScope{"all": nil, "scoped": tenth} {
				b.Run(fmt.Sprintf("%d/%s/%s", chunks, method, name), func(b *testing.B) {
					retriever, err := rag.NewRetriever(rag.RetrieverConfig{Store: store, Embedder: embedding.Hashing{}, Method: method,
						Log: slog.New(slog.DiscardHandler), Deadline: time.Minute})
					if err != nil {
						b.Fatal(err)
					}
					rnd := rand.New(rand.NewPCG(1, 2))
					for b.Loop() {
						got := retriever.Retrieve(b.Context(), rag.Question{Org: "local", Text: strings.Join(words(rnd, 8), " "), Scope: scope})
						if len(got.Chunks) == 0 || len(got.Warnings) > 0 {
							b.Fatalf("found %d, %v", len(got.Chunks), got.Warnings)
						}
					}
				})
			}
		}
	}
}

// grow fills an index with so many chunks, ten to a file, of words that are as rare as
// those of a language, and returns what draws such words.
func grow(b *testing.B, store *sqliteindex.Store, chunks int) (words func(rnd *rand.Rand, n int) []string) {
	b.Helper()
	const vocabulary = 20_000
	words = func(rnd *rand.Rand, n int) []string {
		zipf := rand.NewZipf(rnd, 1.1, 8, vocabulary-1)
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("word%d", zipf.Uint64())
		}
		return out
	}
	x, err := store.Begin(b.Context(), rag.Index{Org: "local", Name: "big", Root: "/big", Embedder: embedding.Hashing{}.Name(), Dimension: 1024})
	if err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	var docs []rag.Document
	for file := range chunks / 10 {
		d := rag.Document{Path: fmt.Sprintf("folder%d/file%d.go", file%50, file), SHA256: "x", Language: "go"}
		texts := make([]string, 10)
		for i := range texts {
			texts[i] = strings.Join(words(rnd, 120), " ")
		}
		vectors, err := embedding.Hashing{}.Embed(b.Context(), texts)
		if err != nil {
			b.Fatal(err)
		}
		for i, text := range texts {
			d.Passages = append(d.Passages, rag.Passage{First: 1 + i*40, Last: 40 + i*40, Text: text, Vector: vectors[i]})
		}
		if docs = append(docs, d); len(docs) == 50 || file == chunks/10-1 {
			if err := store.Put(b.Context(), x, docs); err != nil {
				b.Fatal(err)
			}
			docs = nil
		}
	}
	return words
}
