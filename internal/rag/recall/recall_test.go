package recall_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/house"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/folder"
	"github.com/aptixhq/aptix/internal/rag/recall"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

// least are the figures under which the test fails, well under those that were
// measured: the repository is the corpus, and it changes.
var least = map[rag.Method]float64{rag.Lexical: 0.40, rag.Vector: 0.48, rag.Hybrid: 0.56}

// TestRecall indexes this repository as 'aptix index' does, with the offline embedder,
// asks every question by each method and counts how many have the lines that answer them
// among the first five passages.
func TestRecall(t *testing.T) {
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	questions := readQuestions(t, os.DirFS(root))
	store := sqliteindex.New(filepath.Join(t.TempDir(), "index.db"))
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	update := folder.Updater{Keeper: store, Folder: folder.Folder{Path: filepath.Join(root, corpus)}, Embedder: embedding.Hashing{}}
	report, err := update.Update(t.Context(), rag.Index{Org: "local", Name: "aptix", Repo: "aptix"})
	if err != nil {
		t.Fatal(err)
	}
	forget(t, store, "internal/rag/recall/testdata/questions.txt")
	if few > 0 {
		questions = questions[:few]
	}
	t.Logf("%d questions over %d files, %d passages", len(questions), report.Files, report.Chunks)
	t.Logf("%-8s  recall@5  recall@1", "method")
	for _, method := range []rag.Method{rag.Lexical, rag.Vector, rag.Hybrid} {
		five, one, missed := measure(t, store, method, questions)
		t.Logf("%-8s  %8.2f  %8.2f", method, five, one)
		t.Logf("missed by %s:\n  %s", method, strings.Join(missed, "\n  "))
		if few == 0 && five < least[method] {
			t.Errorf("recall@5 of %s is %.2f, less than %.2f", method, five, least[method])
		}
	}
}

// forget takes the questions themselves out of the index, which are no answer to anything.
func forget(t *testing.T, store rag.Keeper, path string) {
	t.Helper()
	indexes, err := store.Indexes(t.Context(), "local")
	if err == nil {
		err = store.Drop(t.Context(), indexes[0], []string{path})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readQuestions(t *testing.T, tree fs.FS) []recall.Question {
	t.Helper()
	f, err := os.Open("testdata/questions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	questions, err := recall.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(questions) < 40 {
		t.Fatalf("only %d questions", len(questions))
	}
	for _, q := range questions {
		for _, p := range q.Places {
			text, err := fs.ReadFile(tree, p.Path)
			if err != nil || !strings.Contains(string(text), p.Has) {
				t.Errorf("%q: %s has no %q (%v); the place has moved", q.Text, p.Path, p.Has, err)
			}
		}
	}
	return questions
}

// measure asks all questions by one method.
func measure(t *testing.T, store rag.Store, method rag.Method, questions []recall.Question) (five, one float64, missed []string) {
	t.Helper()
	retriever, err := rag.NewRetriever(rag.RetrieverConfig{Store: store, Embedder: embedding.Hashing{}, Method: method,
		Log: slog.New(slog.DiscardHandler), Chunks: 5, Bytes: 1 << 20, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions {
		got := retriever.Retrieve(t.Context(), rag.Question{Org: "local", Text: q.Text})
		if len(got.Warnings) > 0 {
			t.Fatalf("%q: %v", q.Text, got.Warnings)
		}
		place := slices.IndexFunc(got.Chunks, q.AnsweredBy)
		if place < 0 {
			missed = append(missed, q.Text)
			continue
		}
		five++
		if place == 0 {
			one++
		}
	}
	n := float64(len(questions))
	return five / n, one / n, missed
}
