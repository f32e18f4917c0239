package mode

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

const (
	// maxFile is the size that a mode file may have.
	maxFile = 256 << 10
	// maxFiles bounds a folder that is not one of modes at all. A catalogue has
	// tens of entries (TUL-010 §4).
	maxFiles = 1000
)

// Catalog is the fixed set of modes that a server runs with.
type Catalog struct {
	modes    []Mode // default first, then by key
	byKey    map[agent.ModeKey]int
	layers   map[agent.ModeKey]string // what Layer says of each, without a solution context
	hash     string
	shared   []string // see Shared
	warnings Problems
}

// Load reads the mode files, *.yaml and *.yml, at the root of fsys; names that begin
// with a dot are left alone, as a shell would. Its error is a Problems that lists
// everything that is wrong in all of them (decision 31).
func Load(fsys fs.FS) (*Catalog, error) {
	files, problems := read(fsys)
	if problems.Fatal() {
		return nil, problems
	}
	modes := make([]Mode, 0, len(files))
	for _, f := range files {
		modes = append(modes, f.mode)
	}
	return assemble(modes, problems)
}

// assemble makes a catalogue of modes that are sound, each and together.
func assemble(modes []Mode, warnings Problems) (*Catalog, error) {
	c := &Catalog{modes: modes, byKey: map[agent.ModeKey]int{}, layers: map[agent.ModeKey]string{}, warnings: warnings}
	slices.SortFunc(c.modes, func(a, b Mode) int {
		return cmp.Or(btoi(b.IsDefault)-btoi(a.IsDefault), cmp.Compare(a.Key, b.Key))
	})
	for i, m := range c.modes {
		c.byKey[m.Key] = i
	}
	c.shared = c.sharedTools()
	for _, m := range c.modes {
		c.layers[m.Key] = c.layer(m.Key)
	}
	all, err := json.Marshal(c.modes)
	if err != nil {
		return nil, fmt.Errorf("hash the mode catalogue: %w", err)
	}
	sum := sha256.Sum256(all)
	c.hash = hex.EncodeToString(sum[:8])
	return c, nil
}

// Give returns a catalogue in which modes have more tools than their files list, behind
// those. It is an error to give to a mode that there is not.
func (c *Catalog) Give(tools map[agent.ModeKey][]string) (*Catalog, error) {
	for _, key := range slices.Sorted(maps.Keys(tools)) {
		if _, ok := c.byKey[key]; !ok {
			return nil, fmt.Errorf("there is no mode %q for %s; the modes are: %s", key, strings.Join(tools[key], ", "), strings.Join(c.Keys(), ", "))
		}
	}
	modes := c.All()
	for i := range modes {
		for _, name := range tools[modes[i].Key] {
			if !slices.Contains(modes[i].Tools, name) {
				modes[i].Tools = append(modes[i].Tools, name)
			}
		}
	}
	return assemble(modes, c.warnings)
}

// Warnings are the problems that did not stop Load.
func (c *Catalog) Warnings() Problems { return slices.Clone(c.warnings) }

// Current returns the catalogue itself: a fixed one is always the one in force.
func (c *Catalog) Current() *Catalog { return c }

// Recall returns the catalogue itself when it has this hash.
func (c *Catalog) Recall(hash string) (*Catalog, bool) { return c, hash == c.hash }

// Hash tells catalogues apart: two that say the same have the same.
func (c *Catalog) Hash() string { return c.hash }

// Changed returns the keys of the modes that both catalogues have and that are not the
// same in them.
func (c *Catalog) Changed(other *Catalog) []string {
	var keys []string
	for _, m := range c.modes {
		if now, ok := other.Get(m.Key); ok && !reflect.DeepEqual(m, now) {
			keys = append(keys, string(m.Key))
		}
	}
	return keys
}

// Get returns the mode with this key.
func (c *Catalog) Get(key agent.ModeKey) (Mode, bool) {
	i, ok := c.byKey[key]
	if !ok {
		return Mode{}, false
	}
	return c.modes[i].clone(), true
}

// Shared returns, for a mode whose tool choice is AllowedTools, what all such modes list as
// tools; for reading only. Of any other mode ok is false.
func (c *Catalog) Shared(key agent.ModeKey) (entries []string, ok bool) {
	i, ok := c.byKey[key]
	return c.shared, ok && c.modes[i].ToolChoice == AllowedTools
}

// sharedTools is what Shared returns, each entry once.
func (c *Catalog) sharedTools() []string {
	var out []string
	for _, m := range c.modes {
		for _, entry := range m.Tools {
			if m.ToolChoice == AllowedTools && !slices.Contains(out, entry) {
				out = append(out, entry)
			}
		}
	}
	return out
}

// Default returns the mode that stands in for one that is no longer in the
// catalogue (decision 12).
func (c *Catalog) Default() Mode { return c.modes[0].clone() }

// All returns every mode: the default first, then by key.
func (c *Catalog) All() []Mode {
	all := make([]Mode, 0, len(c.modes))
	for _, m := range c.modes {
		all = append(all, m.clone())
	}
	return all
}

// Keys returns the keys of all modes in the order of All.
func (c *Catalog) Keys() []string {
	keys := make([]string, 0, len(c.modes))
	for _, m := range c.modes {
		keys = append(keys, string(m.Key))
	}
	return keys
}

// GetAllModes returns the summaries of all modes in the order of All (TUL-010 §2).
func (c *Catalog) GetAllModes(ctx context.Context) ([]Summary, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := make([]Summary, 0, len(c.modes))
	for _, m := range c.modes {
		all = append(all, m.Summary())
	}
	return all, nil
}

// read parses every file and holds them against each other.
func read(fsys fs.FS) ([]*file, Problems) {
	names, problems := names(fsys)
	var files []*file
	for _, name := range names {
		data, err := readFile(fsys, name)
		if err != nil {
			problems.errorf(name, 0, "%v", err)
			continue
		}
		f := parse(name, data)
		problems = append(problems, f.problems...)
		files = append(files, f)
	}
	problems = append(problems, together(files)...)
	if complete(files, names) {
		problems = append(problems, whole(files)...)
	}
	problems.sort()
	return files, problems
}

// names lists the mode files.
func names(fsys fs.FS) ([]string, Problems) {
	var problems Problems
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		problems.errorf("", 0, "the folder of mode files cannot be read: %v", err)
		return nil, problems
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && isModeFile(e.Name()) {
			names = append(names, e.Name())
		}
	}
	switch {
	case len(names) == 0:
		problems.errorf("", 0, "there are no mode files; write one *.yaml file per mode")
	case len(names) > maxFiles:
		problems.errorf("", 0, "there are %d mode files; at most %d are read", len(names), maxFiles)
		names = names[:maxFiles]
	}
	return names, problems
}

// isModeFile reports whether a name is that of a mode file.
func isModeFile(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

var errTooLarge = fmt.Errorf("the file is larger than %d KiB; a mode needs far less", maxFile>>10)

func readFile(fsys fs.FS, name string) (_ []byte, err error) {
	// A link may lead to a pipe, and opening one waits for a writer.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("this is not a regular file")
	}
	in, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	if len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, nil
}

// together holds the files against each other.
func together(files []*file) Problems {
	var problems Problems
	keys, ids := map[string]*file{}, map[string]*file{}
	var standard *file
	for _, f := range files {
		problems = append(problems, unique(keys, f, "key", string(f.mode.Key))...)
		problems = append(problems, unique(ids, f, "id", strings.ToUpper(f.mode.ID))...)
		switch {
		case !f.mode.IsDefault:
		case standard == nil:
			standard = f
		default:
			problems.errorf(f.name, f.lines["isDefault"], "isDefault is true in %s as well; exactly one mode is the default", standard.name)
		}
	}
	return problems
}

// unique records f as the owner of a value, or that the value has another owner.
func unique(owners map[string]*file, f *file, member, value string) Problems {
	var problems Problems
	switch first := owners[value]; {
	case value == "":
	case first != nil:
		problems.errorf(f.name, f.lines[member], "%s is that of %s as well; every mode has its own", member, first.name)
	default:
		owners[value] = f
	}
	return problems
}

// complete reports whether every file could be taken over: while one could not,
// nobody can say what the catalogue as a whole lacks.
func complete(files []*file, names []string) bool {
	return len(names) > 0 && len(files) == len(names) &&
		!slices.ContainsFunc(files, func(f *file) bool { return !f.parsed || f.unread["key"] || f.unread["isDefault"] })
}

// whole holds the catalogue against the rules that no single file can break.
func whole(files []*file) Problems {
	var problems Problems
	if !slices.ContainsFunc(files, func(f *file) bool { return f.mode.IsDefault }) {
		problems.errorf("", 0, "no mode is the default; set isDefault: true in exactly one file")
	}
	if !slices.ContainsFunc(files, func(f *file) bool { return f.mode.Key == agent.ModeGeneral }) {
		problems.errorf("", 0, "there is no mode with key %q, in which new sessions start", agent.ModeGeneral)
	}
	return problems
}
