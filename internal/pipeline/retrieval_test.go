package pipeline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/folder"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

// withDocuments indexes files for an organisation, in a real index file.
func withDocuments(org agent.OrgID, files map[string][]byte) func(*rig) {
	return func(r *rig) {
		if len(files) == 0 {
			return
		}
		if r.documents == nil {
			withIndexFile(filepath.Join(r.t.TempDir(), "index.db"))(r)
		}
		r.index(org, files)
	}
}

// withIndexFile retrieves from an index file, whether it is there or not.
func withIndexFile(path string) func(*rig) {
	return func(r *rig) {
		store := sqliteindex.New(path)
		r.documents = store
		r.t.Cleanup(func() {
			if err := store.Close(); err != nil {
				r.t.Error(err)
			}
		})
	}
}

// index makes the index of an organisation hold exactly these files.
func (r *rig) index(org agent.OrgID, files map[string][]byte) {
	r.t.Helper()
	dir := r.t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := r.documents.RemoveAll(r.t.Context(), org); err != nil {
		r.t.Fatal(err)
	}
	u := folder.Updater{Keeper: r.documents, Folder: folder.Folder{Path: dir}, Embedder: embedding.Hashing{}}
	if _, err := u.Update(r.t.Context(), rag.Index{Org: org, Name: "docs", Repo: "docs"}); err != nil {
		r.t.Fatal(err)
	}
}

func harbour(text string) map[string][]byte { return map[string][]byte{"harbour.md": []byte(text)} }

// A turn that was broken off goes on with the passages that it began with, whatever has
// become of the index; the next turn finds what is there now.
func TestRetrieval_StaysWithItsTurn(t *testing.T) {
	never := make(chan struct{})
	r := newRig(t, withDocuments(caller.Org, harbour("The harbour is old.")),
		withModel(t, llmtest.Reply{Text: "Cut.", Block: never}, toolCall("c1"), llmtest.Reply{Text: "Old."}, llmtest.Reply{Text: "New."}))
	t.Cleanup(func() { close(never) })
	key := r.submit(userTurn("s1", "t1", "What about the harbour?"))
	r.asked(1)
	r.drainAtOnce()
	r.index(caller.Org, harbour("The harbour is new."))
	r.restart()
	first := r.answer(r.await(key))
	want := []agent.Source{{ID: "ctx_1", Path: "harbour.md", Lines: "1-1"}}
	if diff := cmp.Diff(first.Sources, want); diff != "" {
		t.Errorf("sources: -got +want\n%s", diff)
	}
	requests := r.provider.Requests()
	if string(requests[0]) != string(requests[1]) {
		t.Errorf("the resumed turn asks otherwise:\n%s\n%s", requests[0], requests[1])
	}
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t2", "And the harbour now?")})
	if last := string(r.provider.Requests()[3]); !strings.Contains(last, "The harbour is new.") {
		t.Errorf("the next turn is not shown what is indexed now:\n%s", last)
	}
}

// An index that cannot be read costs a turn nothing but its context, and its user is told
// (decision D87).
func TestRetrieval_FailsWithoutTheTurn(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "index.db")
	if err := os.WriteFile(broken, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, withIndexFile(broken), withModel(t, llmtest.Reply{Text: "Said."}))
	answer := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "What about the harbour?")}))
	want := []string{"The indexed documents could not be searched (it failed); the answer was given without them."}
	if diff := cmp.Diff(answer.UserWarnings, want); diff != "" || answer.PrimaryOutputText != "Said." || answer.Sources != nil {
		t.Errorf("answer %+v\nwarnings: -got +want\n%s", answer, diff)
	}
}

// A queued turn is shown what is indexed when it starts.
func TestRetrieval_OfAQueuedTurn(t *testing.T) {
	rest := make(chan struct{})
	r := newRig(t, withDocuments(caller.Org, harbour("The harbour is old.")),
		withModel(t, llmtest.Reply{Text: "First.", Block: rest}, llmtest.Reply{Text: "Second."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	r.submit(userTurn("s1", "t1", "hello"))
	second := r.submit(userTurn("s1", "t2", "What about the harbour?"))
	r.index(caller.Org, harbour("The harbour is new."))
	close(rest)
	answer := r.answer(r.await(second))
	if got := string(r.provider.Requests()[1]); !strings.Contains(got, "The harbour is new.") || len(answer.Sources) != 1 {
		t.Errorf("sources %v of\n%s", answer.Sources, got)
	}
}

// Without an index a request is what it was before there was retrieval.
func TestRetrieval_WithoutAnIndexChangesNothing(t *testing.T) {
	var sent [2][]byte
	for i, retrieval := range []func(*rig){func(*rig) {}, withIndexFile(filepath.Join(t.TempDir(), "index.db"))} {
		r := newRig(t, retrieval, withModel(t, llmtest.Reply{Text: "Said."}))
		turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "What about the harbour?")})
		sent[i] = r.provider.Requests()[0]
		var answer map[string]json.RawMessage
		if err := json.Unmarshal(turn.Response, &answer); err != nil {
			t.Fatal(err)
		}
		if _, there := answer["sources"]; there {
			t.Errorf("the answer has sources: %s", turn.Response)
		}
	}
	if string(sent[0]) != string(sent[1]) {
		t.Errorf("the requests differ:\n%s\n%s", sent[0], sent[1])
	}
}
