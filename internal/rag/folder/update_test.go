package folder_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/folder"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files into a folder of its own and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// counting is the offline embedder, with a count of what it was asked for.
type counting struct {
	embedding.Hashing
	texts int
	fail  error
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if c.fail != nil && len(texts) > 1 {
		return nil, c.fail
	}
	c.texts += len(texts)
	return c.Hashing.Embed(ctx, texts)
}

// updater returns an updater of an index of its own.
func updater(t *testing.T, dir string) (*folder.Updater, *counting) {
	t.Helper()
	store := sqliteindex.New(filepath.Join(t.TempDir(), "index.db"))
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &counting{}
	return &folder.Updater{Keeper: store, Folder: folder.Folder{Path: dir}, Embedder: c}, c
}

var docs = rag.Index{Org: "local", Name: "docs", Repo: "docs"}

func run(t *testing.T, u *folder.Updater) folder.Report {
	t.Helper()
	report, err := u.Update(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// indexed returns the paths in the index.
func indexed(t *testing.T, u *folder.Updater) []string {
	t.Helper()
	files, err := u.Keeper.Files(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	slices.Sort(out)
	return out
}

func TestUpdate_OnlyWhatChanged(t *testing.T) {
	dir := tree(t, map[string]string{"a.md": "harbour\n", "sub/b.md": "lighthouse\n", "c.md": "mountain\n"})
	u, embedder := updater(t, dir)
	if diff := cmp.Diff(run(t, u), folder.Report{Files: 3, Changed: 3, Chunks: 3}); diff != "" {
		t.Errorf("first: -got +want\n%s", diff)
	}
	embedder.texts = 0
	if diff := cmp.Diff(run(t, u), folder.Report{Files: 3}); diff != "" {
		t.Errorf("nothing changed: -got +want\n%s", diff)
	}
	if embedder.texts > 1 { // the dimension is asked for
		t.Errorf("%d texts were embedded for nothing", embedder.texts)
	}
	write(t, filepath.Join(dir, "a.md"), "pier\n")
	if err := os.Remove(filepath.Join(dir, "sub/b.md")); err != nil {
		t.Fatal(err)
	}
	embedder.texts = 0
	if diff := cmp.Diff(run(t, u), folder.Report{Files: 2, Changed: 1, Chunks: 1, Removed: 1}); diff != "" {
		t.Errorf("one changed, one gone: -got +want\n%s", diff)
	}
	if embedder.texts != 2 {
		t.Errorf("%d texts were embedded, want the changed one and the dimension", embedder.texts)
	}
	if diff := cmp.Diff(indexed(t, u), []string{"a.md", "c.md"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestUpdate_LeavesOutWhatIsNoText(t *testing.T) {
	dir := tree(t, map[string]string{
		"text.md": "ünïcode\n", "empty.txt": "", "binary.png": "\x89PNG\x00\x01", "late.bin": strings.Repeat("x", 9000) + "\x00",
		"latin1.txt": "caf\xe9", "large.txt": strings.Repeat("x\n", 600), ".git/config": "[core]", "sub/.git/x": "y",
	})
	outside := tree(t, map[string]string{"secret.md": "secret"})
	for name, to := range map[string]string{"link.md": filepath.Join(outside, "secret.md"), "links": outside, "inside.md": "text.md", "dead.md": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	u, _ := updater(t, dir)
	u.Folder.MaxFile = 9500
	write(t, filepath.Join(dir, "large.txt"), strings.Repeat("x", 9501))
	report := run(t, u)
	if diff := cmp.Diff(indexed(t, u), []string{"empty.txt", "text.md"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if report.Skipped != 4 {
		t.Errorf("%d skipped, want 4", report.Skipped)
	}
	u.Folder.MaxFiles = 3
	if _, err := u.Update(t.Context(), docs); err == nil || !strings.Contains(err.Error(), "more files than an index takes") {
		t.Errorf("too many files: %v", err)
	}
}

// What is left out is what git leaves out: git itself is the judge.
func TestUpdate_IgnoresWhatGitIgnores(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	files := map[string]string{
		".gitignore":     "*.log\n!keep.log\n/build/\nnode_modules/\n# a comment\n\ndocs/*.tmp\n**/cache/**\nsecret*\r\n\\#odd\n",
		"app/.gitignore": "*.out\n!../escape\n/local\n", "app/deep/.gitignore": "!*.out\n",
	}
	for _, name := range []string{
		"a.md", "x.log", "keep.log", "app/x.log", "app/keep.log", "build/a", "app/build/a", "node_modules/a/b", "app/node_modules/c",
		"docs/x.tmp", "docs/sub/x.tmp", "cache/a", "app/cache/b/c", "secret.md", "app/secrets/a", "#odd", "app/a.out", "app/deep/a.out",
		"a.out", "app/local", "app/deep/local", "excluded.txt", "app/excluded.txt", "with space.md",
	} {
		files[name] = "text of " + name + "\n"
	}
	dir := tree(t, files)
	if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	write(t, filepath.Join(dir, ".git/info/exclude"), "excluded.txt\n")
	for _, below := range []string{"", "app", "app/deep"} {
		t.Run("below "+below, func(t *testing.T) {
			list := exec.Command(git, "-C", filepath.Join(dir, below), "ls-files", "-z", "--others", "--cached", "--exclude-standard")
			list.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
			out, err := list.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			slices.Sort(want)
			u, _ := updater(t, filepath.Join(dir, below))
			run(t, u)
			if diff := cmp.Diff(indexed(t, u), want); diff != "" {
				t.Errorf("-indexed +git\n%s", diff)
			}
		})
	}
}

// Ctrl-C, or an embedder that fails, leaves what was done, and the next run goes on.
func TestUpdate_GoesOnWhereItStopped(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files["f"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+".md"] = "harbour " + strings.Repeat("word ", i)
	}
	dir := tree(t, files)
	u, embedder := updater(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	u.Progress = func(p folder.Progress) {
		if p.Done == 100 {
			cancel()
		}
	}
	report, err := u.Update(ctx, docs)
	if !errors.Is(err, context.Canceled) || report.Changed != 64 {
		t.Fatalf("stopped: %+v, %v; want one batch and the cancel", report, err)
	}
	if n := len(indexed(t, u)); n != 64 {
		t.Errorf("%d files are there after the first batch", n)
	}
	hits, err := u.Keeper.Lexical(t.Context(), rag.Search{Org: "local", Terms: []string{"harbour"}, Most: 500})
	if err != nil || len(hits) != 64 {
		t.Errorf("%d hits in what is there, %v", len(hits), err)
	}
	u.Progress = nil
	embedder.fail = errors.New("the embedder is away")
	if _, err := u.Update(t.Context(), docs); !errors.Is(err, embedder.fail) {
		t.Errorf("got %v, want the embedder's fault", err)
	}
	embedder.fail = nil
	if got := run(t, u); got.Changed != 136 || got.Files != 200 {
		t.Errorf("the last run: %+v, want the other 136", got)
	}
	if diff := cmp.Diff(indexed(t, u), slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestUpdate_RefusesAnotherFolder(t *testing.T) {
	u, _ := updater(t, tree(t, map[string]string{"a.md": "a"}))
	run(t, u)
	u.Folder.Path = tree(t, map[string]string{"b.md": "b"})
	if _, err := u.Update(t.Context(), docs); !errors.As(err, new(*rag.MismatchError)) {
		t.Errorf("got %v, want a MismatchError", err)
	}
	if diff := cmp.Diff(indexed(t, u), []string{"a.md"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}
