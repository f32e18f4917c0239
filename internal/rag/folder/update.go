package folder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/aptixhq/aptix/internal/rag"
)

// Updater brings an index up to date with a folder. Keeper and Folder are required.
type Updater struct {
	Keeper rag.Keeper
	Folder Folder
	// Embedder makes the vectors; nil makes an index without.
	Embedder rag.Embedder
	// Progress is called after each step; nil is not told.
	Progress func(Progress)
}

// Progress is how far an update has come.
type Progress struct {
	// Done of Files are up to date.
	Done, Files int
}

// Report is what an update did.
type Report struct {
	// Files are in the folder and fit to be indexed; Changed of them were written,
	// with Chunks passages. Removed were in the index and are gone.
	Files, Changed, Chunks, Removed int
	// Skipped are files with data that is no text, or more of it than is indexed.
	Skipped int
}

// A batch is written at once: so many files, or when their passages are so many, which
// also bounds what is in memory.
const (
	batchFiles    = 64
	batchPassages = 512
)

// Update brings the index up to date: what changed is cut and embedded anew, what is gone
// is taken out. Each batch is one transaction, so that what an interrupted update leaves
// can be searched, and the next one goes on from there.
func (u *Updater) Update(ctx context.Context, x rag.Index) (Report, error) {
	root, err := os.OpenRoot(u.Folder.Path)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = root.Close() }() // it was only read
	if x.Embedder, x.Dimension, err = u.vectors(ctx); err != nil {
		return Report{}, err
	}
	x.Root = u.Folder.Path
	if x, err = u.Keeper.Begin(ctx, x); err != nil {
		return Report{}, err
	}
	known, err := u.Keeper.Hashes(ctx, x)
	if err != nil {
		return Report{}, err
	}
	var paths []string
	err = u.Folder.walk(ctx, root.FS(), func(path string) error { paths = append(paths, path); return nil })
	if err != nil {
		return Report{}, err
	}
	run := &update{Updater: u, root: root, index: x, gone: known}
	for i, path := range paths {
		if err := run.file(ctx, path); err != nil {
			return run.report, err
		}
		u.tell(Progress{Done: i + 1, Files: len(paths)})
	}
	return run.report, run.finish(ctx)
}

func (u *Updater) tell(p Progress) {
	if u.Progress != nil {
		u.Progress(p)
	}
}

// vectors finds out what vectors the index will have, by embedding a word.
func (u *Updater) vectors(ctx context.Context) (embedder string, dimension int, err error) {
	if u.Embedder == nil {
		return "", 0, nil
	}
	probe, err := u.Embedder.Embed(ctx, []string{"dimension"})
	if err != nil {
		return "", 0, err
	}
	return u.Embedder.Name(), len(probe[0]), nil
}

// update is one run.
type update struct {
	*Updater
	root  *os.Root
	index rag.Index
	// gone are the hashes of files that were indexed and not seen again yet.
	gone     map[string]string
	batch    []rag.Document
	passages int // in the batch
	report   Report
}

// file takes one file in, unless it is as it was.
func (r *update) file(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text, ok, err := r.Folder.read(r.root, path)
	if err != nil {
		return err
	}
	if !ok {
		r.report.Skipped++
		return nil // what it was before goes with the rest that is gone
	}
	r.report.Files++
	sum := sha256.Sum256(text)
	sha := hex.EncodeToString(sum[:])
	was, indexed := r.gone[path]
	delete(r.gone, path)
	if indexed && was == sha {
		return nil
	}
	d := rag.Document{Path: path, SHA256: sha, Language: Language(path), Passages: Cut(string(text))}
	r.batch = append(r.batch, d)
	r.passages += len(d.Passages)
	if len(r.batch) >= batchFiles || r.passages >= batchPassages {
		return r.flush(ctx)
	}
	return nil
}

// flush embeds and writes the batch.
func (r *update) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	if err := r.embed(ctx); err != nil {
		return err
	}
	if err := r.Keeper.Put(ctx, r.index, r.batch); err != nil {
		return err
	}
	r.report.Changed += len(r.batch)
	r.report.Chunks += r.passages
	r.batch, r.passages = nil, 0
	return nil
}

// embed gives the passages of the batch their vectors. The path stands before the text:
// much of what a passage is about is said only there.
func (r *update) embed(ctx context.Context) error {
	if r.Embedder == nil {
		return nil
	}
	var texts []string
	for _, d := range r.batch {
		for _, p := range d.Passages {
			texts = append(texts, d.Path+"\n"+p.Text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, err := r.Embedder.Embed(ctx, texts)
	if err != nil {
		return err
	}
	if len(vectors) != len(texts) {
		return fmt.Errorf("%s gave %d vectors for %d texts", r.Embedder.Name(), len(vectors), len(texts))
	}
	for i := range r.batch {
		for j := range r.batch[i].Passages {
			r.batch[i].Passages[j].Vector, vectors = vectors[0], vectors[1:]
		}
	}
	return nil
}

// finish writes what is left and takes out what is gone.
func (r *update) finish(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	for paths := range slices.Chunk(slices.Sorted(maps.Keys(r.gone)), batchFiles) {
		if err := r.Keeper.Drop(ctx, r.index, paths); err != nil {
			return err
		}
		r.report.Removed += len(paths)
	}
	return nil
}
