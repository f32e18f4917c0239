// Package localtools are the tools that the chat client runs on the user's machine:
// list_files, read_file, search_files, write_file and run_command. When a turn waits
// for them, the chat client prepares each call, asks the user where the call says so,
// runs it and hands the result back (AGN-034 §5).
//
// The four file tools cannot leave the directory they were opened in: every access goes
// through an os.Root, so that neither a path nor a symbolic link, nor one exchanged
// while a call runs, leads outside. A command is a program of its own and cannot be
// confined that way; it starts in the directory, and it never starts without the user's
// word.
//
// Everything is bounded: what a call reads, visits, returns and how long it takes.
package localtools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits bound what one call may do. Zero fields mean the documented default.
type Limits struct {
	ReadBytes     int           // content that read_file returns: 64 KiB
	ScanBytes     int64         // what read_file passes over to reach a line: 64 MiB
	WriteBytes    int           // content that write_file takes: 4 MiB
	Entries       int           // entries that list_files returns: 1000
	Visits        int           // entries that list_files and search_files look at: 50,000
	Matches       int           // matches that search_files returns: 100
	SearchFile    int64         // larger files are passed over by search_files: 4 MiB
	SearchBytes   int64         // content that search_files looks at: 256 MiB
	SearchTime    time.Duration // how long search_files looks: 30 s
	CommandTime   time.Duration // how long run_command runs: 60 s
	CommandOutput int           // output that run_command returns: 64 KiB
	CommandBytes  int           // length of a command, which somebody must read: 8 KiB
}

func (l Limits) withDefaults() Limits {
	or(&l.ReadBytes, 64<<10)
	or(&l.ScanBytes, 64<<20)
	or(&l.WriteBytes, 4<<20)
	or(&l.Entries, 1000)
	or(&l.Visits, 50_000)
	or(&l.Matches, 100)
	or(&l.SearchFile, 4<<20)
	or(&l.SearchBytes, 256<<20)
	or(&l.SearchTime, 30*time.Second)
	or(&l.CommandTime, 60*time.Second)
	or(&l.CommandOutput, 64<<10)
	or(&l.CommandBytes, 8<<10)
	return l
}

func or[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Tools are the tools of one directory.
type Tools struct {
	dir    string // absolute, for commands and for showing where a link leads
	root   *os.Root
	limits Limits
	tools  []localTool
}

// Definition is what the model is told of a tool.
type Definition struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema
}

// Action is a call that is ready to run.
type Action struct {
	// Ask tells that the user must agree before Run. Title then says what will happen,
	// and Detail is the exact path or command. Both may hold text of the model, which
	// must be made visible before it is shown.
	Ask           bool
	Title, Detail string
	// Change is what the call would do to a file, nil when it writes none.
	Change *Change

	run func(context.Context) (any, error)
}

// Change is a file before and after a call.
type Change struct {
	Path string // within the directory
	// Old is nil when there is no such file, or none whose text can be shown.
	Old *string
	New string
}

// Run executes the call and returns its result as JSON. The text of an error is meant
// for the model.
func (a Action) Run(ctx context.Context) (string, error) {
	v, err := a.run(ctx)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// localTool is one of the tools: what the model is told, and how a call is prepared.
type localTool struct {
	Definition
	prepare func(arguments []byte) (Action, error)
}

// Open returns the tools of a directory.
func Open(dir string, limits Limits) (*Tools, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", dir, err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fmt.Errorf("open directory %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", dir, err)
	}
	t := &Tools{dir: abs, root: root, limits: limits.withDefaults()}
	t.tools = []localTool{t.listFiles(), t.readFile(), t.searchFiles(), t.writeFile(), t.runCommand()}
	return t, nil
}

// Close lets go of the directory.
func (t *Tools) Close() error { return t.root.Close() }

// Dir returns the directory's absolute path.
func (t *Tools) Dir() string { return t.dir }

// Definitions returns what the model is told, in a fixed order.
func (t *Tools) Definitions() []Definition {
	out := make([]Definition, len(t.tools))
	for i, lt := range t.tools {
		out[i] = lt.Definition
	}
	return out
}

// Prepare checks a call without doing anything yet. The text of an error is meant for
// the model.
func (t *Tools) Prepare(name, argumentsJSON string) (Action, error) {
	for _, lt := range t.tools {
		if lt.Name == name {
			return lt.prepare([]byte(argumentsJSON))
		}
	}
	names := make([]string, len(t.tools))
	for i, lt := range t.tools {
		names[i] = lt.Name
	}
	return Action{}, fmt.Errorf("there is no tool %q here; use one of %s", name, strings.Join(names, ", "))
}

// arguments decodes a call's arguments; unknown members are refused, so that a misspelt
// one is not silently left out.
func arguments[A any](raw []byte) (A, error) {
	var a A
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, fmt.Errorf("the arguments do not fit the tool's schema: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("the arguments must be one JSON object and nothing after it")
	}
	return a, nil
}

// maxPath bounds the length of a path.
const maxPath = 1024

// local turns the path of a call into one that an os.Root takes. Empty means the
// directory itself.
func local(p string) (string, error) {
	switch {
	case p == "":
		return ".", nil
	case len(p) > maxPath:
		return "", fmt.Errorf("the path is longer than %d bytes", maxPath)
	case !utf8.ValidString(p), strings.ContainsRune(p, 0):
		return "", errors.New("the path is not valid text")
	}
	clean := path.Clean(p)
	if path.IsAbs(p) || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", fmt.Errorf("%s is outside the directory; give a path relative to it, without leaving it", p)
	}
	return clean, nil
}

// failed says what could not be done to a path, without the machine's own paths.
func failed(verb, p string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot %s %s: it does not exist; use list_files to see what does", verb, p)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot %s %s: permission denied", verb, p)
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	if le := (*os.LinkError)(nil); errors.As(err, &le) {
		err = le.Err
	}
	return fmt.Errorf("cannot %s %s: %w", verb, p, err)
}

// regular opens a file for reading. It looks before it opens, since opening a pipe
// would wait for its other end.
func regular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := isRegular(info); err != nil {
		return nil, nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = isRegular(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func isRegular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("it is a directory; use list_files")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	return nil
}

// sniff is how much of a file tells whether it is text.
const sniff = 8 << 10

// binary reports whether the beginning of a file is not text.
func binary(head []byte) bool { return bytes.IndexByte(head, 0) >= 0 }

// cut returns at most n bytes of s, whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// wholeRunes returns s without the beginning of a character at its end.
func wholeRunes(s string) string {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}
