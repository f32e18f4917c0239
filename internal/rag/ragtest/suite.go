// Package ragtest is the behaviour that every keeper of indexes has.
package ragtest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/rag"
)

// Suite runs every test on keepers that open makes, each with nothing in it. vectors tells
// that they keep vectors.
func Suite(t *testing.T, vectors bool, open func(t *testing.T) rag.Keeper) {
	for name, test := range map[string]func(t *testing.T, k *keeper){
		"UpdatesInPlace":     updatesInPlace,
		"FindsByWords":       findsByWords,
		"FindsByVectors":     findsByVectors,
		"EqualHitsGoByID":    equalHitsGoByID,
		"TenantsNeverMix":    tenantsNeverMix,
		"HostileScopes":      hostileScopes,
		"HostileWords":       hostileWords,
		"ScopeIsWhatAdmits":  scopeIsWhatAdmits,
		"RefusesWhatMisfits": refusesWhatMisfits,
		"RemovedMeanwhile":   removedMeanwhile,
	} {
		t.Run(name, func(t *testing.T) { test(t, &keeper{Keeper: open(t), t: t, vectors: vectors}) })
	}
}

// keeper is what is tested, with calls that fail the test.
type keeper struct {
	rag.Keeper
	t       *testing.T
	vectors bool
}

func (k *keeper) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// begin makes an index.
func (k *keeper) begin(org agent.OrgID, name string) rag.Index {
	k.t.Helper()
	want := rag.Index{Org: org, Name: name, Repo: name + "-repo", Root: "/" + name}
	if k.vectors {
		want.Embedder, want.Dimension = "test", 2
	}
	x, err := k.Begin(k.t.Context(), want)
	k.must(err)
	return x
}

// doc is a document with one passage; its vector lies at an angle of the plane.
func (k *keeper) doc(path, text string, vector ...float32) rag.Document {
	p := rag.Passage{First: 1, Last: 3, Text: text}
	if k.vectors {
		p.Vector = []float32{1, 0}
		if len(vector) > 0 {
			p.Vector = vector
		}
	}
	return rag.Document{Path: path, SHA256: "sha of " + text, Language: "go", Passages: []rag.Passage{p}}
}

func (k *keeper) put(x rag.Index, docs ...rag.Document) {
	k.t.Helper()
	k.must(k.Put(k.t.Context(), x, docs))
}

// words returns the paths that a question finds by words.
func (k *keeper) words(org agent.OrgID, question string) (paths []string) {
	k.t.Helper()
	hits, err := k.Lexical(k.t.Context(), rag.Search{Org: org, Terms: rag.Terms(question), Most: 10})
	k.must(err)
	for _, h := range hits {
		paths = append(paths, h.Path)
	}
	return paths
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := gocmp.Diff(got, want, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: -got +want\n%s", what, diff)
	}
}

func updatesInPlace(t *testing.T, k *keeper) {
	x := k.begin("acme", "docs")
	k.put(x, k.doc("a.md", "the harbour"), k.doc("b.md", "the lighthouse"))
	k.put(x, k.doc("a.md", "the mountain"))
	want(t, "what was written over", k.words("acme", "harbour"), nil)
	want(t, "what is there now", k.words("acme", "mountain"), []string{"a.md"})
	hashes, err := k.Hashes(t.Context(), x)
	k.must(err)
	want(t, "hashes", hashes, map[string]string{"a.md": "sha of the mountain", "b.md": "sha of the lighthouse"})
	files, chunks, err := k.Count(t.Context(), x)
	k.must(err)
	want(t, "files and passages", [2]int{files, chunks}, [2]int{2, 2})

	again := k.begin("acme", "docs")
	want(t, "begun again", again, x)
	k.must(k.Drop(t.Context(), x, []string{"a.md", "never.md"}))
	want(t, "what was dropped", k.words("acme", "mountain"), nil)
	want(t, "what stayed", k.words("acme", "lighthouse"), []string{"b.md"})

	k.must(k.Remove(t.Context(), "acme", "docs"))
	want(t, "after all", k.words("acme", "lighthouse"), nil)
	if err := k.Remove(t.Context(), "acme", "docs"); !errors.Is(err, rag.ErrNoIndex) {
		t.Errorf("removed twice: %v, want ErrNoIndex", err)
	}
	list, err := k.Indexes(t.Context(), "acme")
	k.must(err)
	want(t, "indexes", list, nil)
}

func findsByWords(t *testing.T, k *keeper) {
	x := k.begin("acme", "code")
	k.put(x,
		k.doc("client/reader.go", "func (c *Client) maxReadBytes() int { return 1 }"),
		k.doc("store/limits.py", "MAX_READ_BYTES = 4096"),
		k.doc("notes.md", "The lighthouse keepers were counting ships."),
	)
	for question, paths := range map[string][]string{
		"What is maxReadBytes?":      {"client/reader.go", "store/limits.py"},
		"MAX_READ_BYTES":             {"client/reader.go", "store/limits.py"},
		"lighthouse":                 {"notes.md"},
		"Who counts the ships?":      {"notes.md"}, // counting, by its stem
		"reader":                     {"client/reader.go"},
		"nothing has this word xyzq": nil,
	} {
		got := k.words("acme", question)
		slices.Sort(got)
		if len(got) != len(paths) || len(paths) > 0 && !slices.Equal(got, paths) {
			t.Errorf("%q finds %v, want %v", question, got, paths)
		}
	}
	hits, err := k.Lexical(t.Context(), rag.Search{Org: "acme", Terms: []string{"ships"}, Most: 10})
	k.must(err)
	found, err := k.Passages(t.Context(), "acme", []int64{hits[0].ID + 1000, hits[0].ID})
	k.must(err)
	want(t, "passages", found, []rag.Found{{Hit: hits[0], Language: "go", First: 1, Last: 3, Text: "The lighthouse keepers were counting ships."}})
}

func findsByVectors(t *testing.T, k *keeper) {
	if !k.vectors {
		if _, err := k.Nearest(t.Context(), rag.Search{Org: "acme", Vector: []float32{1, 0}}); !errors.Is(err, rag.ErrNoVectors) {
			t.Errorf("nearest: %v, want ErrNoVectors", err)
		}
		return
	}
	x := k.begin("acme", "docs")
	k.put(x, k.doc("east", "a", 1, 0), k.doc("north", "b", 0, 1), k.doc("northeast", "c", 0.6, 0.8))
	search := rag.Search{Org: "acme", Vector: []float32{0.1, 0.995}, Embedder: "test", Most: 2}
	paths := func() (out []string) {
		hits, err := k.Nearest(t.Context(), search)
		k.must(err)
		for _, h := range hits {
			out = append(out, h.Path)
		}
		return out
	}
	want(t, "nearest", paths(), []string{"north", "northeast"})
	files, err := k.Files(t.Context(), "acme")
	k.must(err)
	search.Within = []int64{files[0].ID}
	want(t, "within one file", paths(), []string{"east"})
	search.Within, search.Embedder = nil, "another"
	want(t, "for another embedder", paths(), nil)
	if err := k.Put(t.Context(), x, []rag.Document{k.doc("long", "d", 1, 0, 0)}); !errors.As(err, new(*rag.MismatchError)) {
		t.Errorf("a vector of another dimension: %v, want a MismatchError", err)
	}
	want(t, "after a refused one", k.words("acme", "long"), nil)
}

func equalHitsGoByID(t *testing.T, k *keeper) {
	x := k.begin("acme", "docs")
	var paths []string
	for i := range 9 {
		paths = append(paths, fmt.Sprintf("p/%d", 9-i))
		k.put(x, k.doc(paths[i], "the same words"))
	}
	search := rag.Search{Org: "acme", Terms: []string{"words"}, Vector: []float32{1, 0}, Embedder: "test", Most: 5}
	searches := []func() ([]rag.Hit, error){func() ([]rag.Hit, error) { return k.Lexical(t.Context(), search) }}
	if k.vectors {
		searches = append(searches, func() ([]rag.Hit, error) { return k.Nearest(t.Context(), search) })
	}
	for _, run := range searches {
		hits, err := run()
		k.must(err)
		var got []string
		for _, h := range hits {
			got = append(got, h.Path)
		}
		want(t, "the first of equal hits", got, paths[:5])
		if !slices.IsSortedFunc(hits, func(a, b rag.Hit) int { return cmp.Compare(a.ID, b.ID) }) {
			t.Errorf("equal hits are not ordered by id: %v", hits)
		}
	}
}

// tenantsNeverMix asks as one organisation for what another one has, in every way.
func tenantsNeverMix(t *testing.T, k *keeper) {
	ours, theirs := k.begin("acme", "docs"), k.begin("umbrella", "docs")
	k.put(ours, k.doc("ours.md", "harbour crane", 0.6, 0.8), k.doc("more.md", "crane crane harbour harbour pier", 0.6, 0.8))
	rank := func() []rag.Hit {
		hits, err := k.Lexical(t.Context(), rag.Search{Org: "acme", Terms: []string{"harbour", "crane"}, Most: 10})
		k.must(err)
		return hits
	}
	before := rank()
	for i := range 50 {
		k.put(theirs, k.doc(fmt.Sprintf("theirs-%d.md", i), "harbour secret harbour"))
	}
	want(t, "our ranking, whatever they have", rank(), before)
	want(t, "a word of theirs", k.words("acme", "secret"), nil)
	files, err := k.Files(t.Context(), "acme")
	k.must(err)
	want(t, "our files", len(files), 2)

	stolen, err := k.Lexical(t.Context(), rag.Search{Org: "umbrella", Terms: []string{"secret"}, Most: 3})
	k.must(err)
	theirFiles, err := k.Files(t.Context(), "umbrella")
	k.must(err)
	hits, err := k.Lexical(t.Context(), rag.Search{Org: "acme", Terms: []string{"secret"}, Within: []int64{theirFiles[0].ID}, Most: 10})
	k.must(err)
	want(t, "within their files", hits, nil)
	if k.vectors {
		hits, err := k.Nearest(t.Context(), rag.Search{Org: "acme", Vector: []float32{1, 0}, Embedder: "test", Most: 2})
		k.must(err)
		want(t, "nearest of ours, though theirs are nearer", len(hits), 2)
		hits, err = k.Nearest(t.Context(), rag.Search{Org: "acme", Vector: []float32{1, 0}, Embedder: "test", Within: []int64{theirFiles[0].ID}, Most: 100})
		k.must(err)
		want(t, "nearest within their files", hits, nil)
	}
	found, err := k.Passages(t.Context(), "acme", []int64{stolen[0].ID})
	k.must(err)
	want(t, "passages by their id", found, nil)

	// What is written under our name with their number goes nowhere.
	forged := theirs
	forged.Org = "acme"
	if err := k.Put(t.Context(), forged, []rag.Document{k.doc("forged.md", "forged")}); !errors.Is(err, rag.ErrNoIndex) {
		t.Errorf("written into their index: %v, want ErrNoIndex", err)
	}
	if n, _, err := k.Count(t.Context(), forged); n != 0 || err != nil {
		t.Errorf("counted %d of their files, %v", n, err)
	}
	n, err := k.RemoveAll(t.Context(), "acme")
	k.must(err)
	want(t, "ours, removed", n, 1)
	want(t, "theirs stay", len(k.words("umbrella", "secret")), 10)
	k.put(k.begin("acme", "docs"), k.doc("new.md", "harbour"))
	want(t, "ours, begun again", k.words("acme", "harbour secret"), []string{"new.md"})
}

// retrieve asks through the retriever, as a turn does.
func (k *keeper) retrieve(q rag.Question) rag.Context {
	k.t.Helper()
	r, err := rag.NewRetriever(rag.RetrieverConfig{Store: k, Method: rag.Lexical, Log: slog.New(slog.DiscardHandler), Chunks: 10, Deadline: time.Minute})
	k.must(err)
	return r.Retrieve(k.t.Context(), q)
}

func (c hostile) scope() *agent.RAGScope {
	return &agent.RAGScope{Conditions: []agent.RAGCondition{{Key: c.key, Operator: c.operator, Values: []string{c.value}}}}
}

// hostile is a condition that tries to be more than one.
type hostile struct {
	key, operator, value string
	finds                bool // as a condition that is taken by the letter
}

// hostileScopes: no key and no value of a condition becomes part of a search's language
// (AGN-034 §4.4). Each is taken by the letter, and the data is whole afterwards.
func hostileScopes(t *testing.T, k *keeper) {
	prove.Rule(t, "AGN034-4.4-c")
	k.put(k.begin("acme", "docs"), k.doc("a.md", "harbour"))
	k.put(k.begin("umbrella", "docs"), k.doc("secret.md", "harbour"))
	for _, c := range []hostile{
		{"path", "==", "a.md", true},
		{"path' OR '1'='1", "==", "a.md", false},
		{"path) OR (1=1", "!=", "x", true}, // a key that no file has
		{`path" = path --`, "==", "a.md", false},
		{"org", "==", "umbrella", false},
		{"path; DROP TABLE files", "contains", "a", false},
		{"path", "==", "' OR '1'='1", false},
		{"path", "==", "a.md' --", false},
		{"path", "contains", "%", false},
		{"path", "contains", "_", false},
		{"path", "contains", "", true},
		{"path", "does_not_contain", "'", true},
		{"path", "==", "x') UNION SELECT * FROM files --", false},
		{"path", "!=", "\x00", true},
		{"path", "==", "\xff\xfe", false},
		{"path", "==", `a.md"]') OR 1`, false},
		{"index", "==", "docs\" OR org = \"umbrella", false},
		{"repo", "OR 1=1", "docs", false},
	} {
		got := k.retrieve(rag.Question{Org: "acme", Text: "harbour", Scope: c.scope()})
		if (len(got.Chunks) == 1) != c.finds || len(got.Chunks) > 1 {
			t.Errorf("%q %q %q finds %v, want %t", c.key, c.operator, c.value, got.Chunks, c.finds)
		}
		for _, chunk := range got.Chunks {
			if chunk.Path != "a.md" {
				t.Errorf("%q %q %q finds %s of another organisation", c.key, c.operator, c.value, chunk.Path)
			}
		}
	}
	want(t, "theirs, afterwards", k.words("umbrella", "harbour"), []string{"secret.md"})
}

// hostileWords: a question is no query.
func hostileWords(t *testing.T, k *keeper) {
	k.put(k.begin("acme", "docs"), k.doc("a.md", "harbour NEAR the pier"))
	k.put(k.begin("umbrella", "docs"), k.doc("secret.md", "harbour"))
	for _, question := range []string{
		`harbour" OR "1`, `harbour') OR 1=1 --`, "harbour AND NOT pier", "path:harbour", "harbour*", "^harbour", "{path text}: harbour",
		"NEAR(harbour pier)", `harbour:* | !x <-> y`, "harbour\x00", "harbour \\' & !", "'harbour''",
	} {
		want(t, question, k.words("acme", question), []string{"a.md"})
	}
	// Terms that did not come from rag.Terms.
	for _, term := range []string{`"`, `'`, `\`, `" OR "harbour`, `' | 'harbour`, `\' | harbour`, "*", "(", "harbour | x"} {
		hits, err := k.Lexical(t.Context(), rag.Search{Org: "acme", Terms: []string{term, "pier"}, Most: 10})
		if err != nil || len(hits) != 1 || hits[0].Path != "a.md" {
			t.Errorf("term %q: %v, %v", term, hits, err)
		}
	}
}

// scopeIsWhatAdmits: what a scope leaves of an index is what rag.Admits says.
func scopeIsWhatAdmits(t *testing.T, k *keeper) {
	prove.Rule(t, "AGN034-4.4-c")
	k.put(k.begin("acme", "docs"), k.doc("guide/a.md", "harbour"), k.doc("b.md", "harbour"))
	k.put(k.begin("acme", "code"), k.doc("guide/c.go", "harbour"))
	both := &agent.RAGScope{Conditions: []agent.RAGCondition{
		{Key: rag.KeyPath, Operator: agent.RAGContains, Values: []string{"guide/"}},
		{Key: rag.KeyRepo, Operator: agent.RAGNotEquals, Values: []string{"code-repo"}},
	}}
	for name, tc := range map[string]struct {
		scope *agent.RAGScope
		hints rag.Hints
		want  []string
	}{
		"no scope":             {nil, rag.Hints{}, []string{"b.md", "guide/a.md", "guide/c.go"}},
		"both conditions":      {both, rag.Hints{}, []string{"guide/a.md"}},
		"and an excluded path": {both, rag.Hints{Exclude: []string{"guide"}}, nil},
		"an excluded index":    {nil, rag.Hints{Exclude: []string{"docs"}}, []string{"guide/c.go"}},
		"an excluded pattern":  {nil, rag.Hints{Exclude: []string{"/guide/*.md"}}, []string{"b.md", "guide/c.go"}},
	} {
		var got []string
		for _, c := range k.retrieve(rag.Question{Org: "acme", Text: "harbour", Scope: tc.scope, Hints: tc.hints}).Chunks {
			got = append(got, c.Path)
		}
		slices.Sort(got)
		want(t, name, got, tc.want)
	}
	preferred := k.retrieve(rag.Question{Org: "acme", Text: "harbour", Hints: rag.Hints{Prefer: []string{"*.go"}}}).Chunks
	want(t, "the preferred one comes first", preferred[0].Path, "guide/c.go")
}

func refusesWhatMisfits(t *testing.T, k *keeper) {
	x := k.begin("acme", "docs")
	moved := rag.Index{Org: "acme", Name: "docs", Root: "/elsewhere", Embedder: x.Embedder, Dimension: x.Dimension}
	if _, err := k.Begin(t.Context(), moved); !errors.As(err, new(*rag.MismatchError)) {
		t.Errorf("another root: %v, want a MismatchError", err)
	}
	other := rag.Index{Org: "acme", Name: "docs", Root: "/docs", Embedder: "other", Dimension: 2}
	_, err := k.Begin(t.Context(), other)
	if !k.vectors {
		if !errors.Is(err, rag.ErrNoVectors) {
			t.Errorf("an embedder: %v, want ErrNoVectors", err)
		}
		return
	}
	if !errors.As(err, new(*rag.MismatchError)) {
		t.Errorf("another embedder: %v, want a MismatchError", err)
	}
	other.Embedder, other.Dimension = x.Embedder, 3
	if _, err := k.Begin(t.Context(), other); !errors.As(err, new(*rag.MismatchError)) {
		t.Errorf("another dimension: %v, want a MismatchError", err)
	}
}

// removedMeanwhile: an update whose index is removed under it fails, and leaves nothing in
// one that has its name.
func removedMeanwhile(t *testing.T, k *keeper) {
	x := k.begin("acme", "docs")
	k.must(k.Remove(t.Context(), "acme", "docs"))
	k.begin("acme", "docs")
	if err := k.Put(t.Context(), x, []rag.Document{k.doc("a.md", "harbour")}); !errors.Is(err, rag.ErrNoIndex) {
		t.Errorf("put: %v, want ErrNoIndex", err)
	}
	want(t, "in the new one", k.words("acme", "harbour"), nil)
}
