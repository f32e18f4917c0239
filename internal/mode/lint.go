package mode

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// What Lint warns about because it is paid for with every model call.
const (
	// maxPrompt is what a mode says of itself, maxWhenToUse its line in the list of modes,
	// maxList that list.
	maxPrompt    = 32 << 10
	maxWhenToUse = 1 << 10
	maxList      = 32 << 10
	// maxStray bounds the search for mode files that lie too deep to be read.
	maxStray = 2000
)

// Lint returns what Load finds wrong, warnings included, and what a server would take but
// a careful author would not leave: tools that the server does not have, which is an
// error; prompts that are too long, and modes that nothing leads to, which are warnings.
//
// Every mode of a catalogue can be chosen by the user, by the client that opens a session
// and by the model. A mode is dead when its file is not read, or when its line does not
// tell it from another, so that the model never has a reason to propose it.
func Lint(fsys fs.FS, tools []string) Problems {
	files, problems := read(fsys)
	for _, f := range files {
		problems = append(problems, unknownTools(f, tools)...)
	}
	problems = append(problems, alike(files)...)
	problems = append(problems, retired(files)...)
	problems = append(problems, stray(fsys)...)
	problems = append(problems, oversized(files)...)
	problems.sort()
	return problems
}

// unknownTools returns what is wrong with the entries of a mode's tools: names, groups, and
// patterns that stand for the tools that they match.
func unknownTools(f *file, tools []string) Problems {
	var problems Problems
	for i, entry := range f.mode.Tools {
		_, broken := path.Match(entry, "") // was refused when it was read
		matches := func(name string) bool {
			ok, _ := path.Match(entry, name)
			return ok
		}
		switch pattern := strings.ContainsAny(entry, "*?["); {
		case entry == changeMode || slices.Contains(tools, entry):
		case pattern && broken == nil && !slices.ContainsFunc(tools, matches):
			problems.warnf(f.name, f.tools[i], "the pattern %q matches no tool of the server", entry)
		case !pattern:
			problems.errorf(f.name, f.tools[i], "unknown tool %q; the server tools are: %s", entry, strings.Join(tools, ", "))
		}
	}
	return problems
}

// alike warns of modes that cannot be told apart, by the model or by people.
func alike(files []*file) Problems {
	var problems Problems
	lines, names := map[string]*file{}, map[string]*file{}
	for _, f := range files {
		if first := owner(lines, f, f.mode.WhenToUse); first != nil {
			problems.warnf(f.name, f.lines["whenToUse"], "whenToUse is that of %s as well: the model cannot tell the modes apart, and one of them is dead", first.name)
		}
		if first := owner(names, f, f.mode.DisplayName); first != nil {
			problems.warnf(f.name, f.lines["displayName"], "displayName is that of %s as well: people cannot tell the modes apart", first.name)
		}
	}
	return problems
}

// owner returns the file that has a text already, or makes f its owner. Case and spaces do
// not tell texts apart.
func owner(owners map[string]*file, f *file, text string) *file {
	text = strings.ToLower(flat(text))
	first := owners[text]
	if first == nil && text != "" {
		owners[text] = f
	}
	return first
}

// retired warns of deprecated modes in which sessions begin or end up all the same.
func retired(files []*file) Problems {
	var problems Problems
	for _, f := range files {
		switch {
		case f.mode.Status != StatusDeprecated:
		case f.mode.Key == agent.ModeGeneral:
			problems.warnf(f.name, f.lines["status"], "%s is deprecated, but new sessions start in it", agent.ModeGeneral)
		case f.mode.IsDefault:
			problems.warnf(f.name, f.lines["status"], "the default mode is deprecated, but it stands in for modes that are gone")
		}
	}
	return problems
}

// stray warns of mode files below the root of the folder, which are never read.
func stray(fsys fs.FS) Problems {
	var problems Problems
	left := maxStray
	// A folder that cannot be read is named by read already; below it nothing is lost.
	_ = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if left--; err != nil || left < 0 {
			return fs.SkipAll
		}
		if name != "." && strings.HasPrefix(e.Name(), ".") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() || path.Dir(name) == "." || !isModeFile(e.Name()) {
			return nil
		}
		if data, err := readFile(fsys, name); err == nil {
			if f := parse(name, data); f.lines["key"] != 0 && f.lines["whenToUse"] != 0 {
				problems.warnf(name, 0, "this mode is dead: only the files at the root of the folder are read; move it there")
			}
		}
		return nil
	})
	return problems
}

// oversized warns of texts that make every model call dear.
func oversized(files []*file) Problems {
	var problems Problems
	list := 0
	for _, f := range files {
		m := f.mode
		own := len(m.Description) + len(m.SystemPromptSummary) + len(strings.Join(m.Instructions, "\n"))
		if own > maxPrompt {
			problems.warnf(f.name, f.lines["instructions"], "what this mode tells the model is %s; it goes with every model call. Keep it under %d KiB", size(own), maxPrompt>>10)
		}
		if n := len(m.WhenToUse); n > maxWhenToUse {
			problems.warnf(f.name, f.lines["whenToUse"], "whenToUse is %s; it goes with every model call, in every mode. Keep it under %d KiB", size(n), maxWhenToUse>>10)
		}
		list += len(m.Key) + len(m.DisplayName) + len(m.WhenToUse)
	}
	if list > maxList {
		problems.warnf("", 0, "the list of modes is %s; it goes with every model call, in every mode. Have fewer modes, or shorter lines", size(list))
	}
	return problems
}

// size says how long a text is, also in what is paid for. Four bytes a token is a rule of
// thumb.
func size(n int) string { return fmt.Sprintf("%.1f KiB long (some %d tokens)", float64(n)/1024, n/4) }
