package localtools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

type writeArgs struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
}

type writeResult struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created"`
}

func (t *Tools) writeFile() localTool {
	return localTool{
		Definition: Definition{
			Name: "write_file",
			Description: "Writes a text file in the user's project directory, replacing what is there; missing folders are made. " +
				"The user is asked first and may say no. Give the whole content of the file.",
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"File to write, relative to the project directory."},` +
				`"content":{"type":"string","description":"The whole new content."}},` +
				`"required":["path","content"],"additionalProperties":false}`),
		},
		prepare: func(raw []byte) (Action, error) {
			a, err := arguments[writeArgs](raw)
			if err != nil {
				return Action{}, err
			}
			if a.Path == "" || a.Content == nil || strings.HasSuffix(a.Path, "/") {
				return Action{}, errors.New("write_file needs the path of a file and its content")
			}
			if len(*a.Content) > t.limits.WriteBytes {
				return Action{}, fmt.Errorf("the content has more than %d bytes", t.limits.WriteBytes)
			}
			if a.Path, err = local(a.Path); err != nil {
				return Action{}, err
			}
			old, err := t.target(a.Path)
			if err != nil {
				return Action{}, failed("write", a.Path, err)
			}
			return Action{
				Ask: true, Title: t.writeTitle(a, old), Detail: a.Path,
				Change: &Change{Path: a.Path, Old: t.text(a.Path, old), New: *a.Content},
				run: func(context.Context) (any, error) {
					created, err := t.write(a.Path, *a.Content)
					if err != nil {
						return nil, failed("write", a.Path, err)
					}
					return writeResult{Path: a.Path, Bytes: len(*a.Content), Created: created}, nil
				},
			}, nil
		},
	}
}

func (t *Tools) writeTitle(a writeArgs, old fs.FileInfo) string {
	what := fmt.Sprintf("write %s (%s)", size(int64(len(*a.Content)), "byte"), size(lineCount(*a.Content), "line"))
	if old == nil {
		what += " to a new file"
	} else {
		what += " over a file of " + size(old.Size(), "byte")
	}
	if real := t.where(a.Path); real != "" {
		what += ", through a link; it is really " + real
	}
	return what
}

func lineCount(text string) int64 {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return int64(n)
}

func size(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// target returns the file that a write would replace, nil when there is none, or why
// it must not be replaced.
func (t *Tools) target(name string) (fs.FileInfo, error) {
	info, err := exists(t.root, name)
	switch {
	case err != nil || info == nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory")
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("it is a symbolic link; write to the file that it leads to")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return info, nil
}

// text returns what is in a file, nil when there is none, or too much, or no text.
func (t *Tools) text(name string, info fs.FileInfo) *string {
	if info == nil || info.Size() > int64(t.limits.WriteBytes) {
		return nil
	}
	content, err := t.root.ReadFile(name)
	if err != nil || binary(content) || !utf8.Valid(content) {
		return nil
	}
	text := string(content)
	return &text
}

// write replaces a file as a whole: readers see the old content or the new, and a
// failure leaves the old one.
func (t *Tools) write(name, content string) (created bool, err error) {
	old, err := t.target(name)
	if err != nil {
		return false, err
	}
	dir := path.Dir(name)
	if err := t.root.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	draft := path.Join(dir, ".aptix-"+rand.Text()+".tmp")
	f, err := t.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(content)
	if old != nil {
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = t.root.Rename(draft, name)
	}
	if err != nil {
		return false, errors.Join(err, t.root.Remove(draft))
	}
	return old == nil, nil
}
