package tool

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A mode lists its tools by entries. An entry is the name of a tool, a pattern that
// stands for all tools whose names it matches, such as github__*, or a group that the
// configuration names, such as group:reading.

// groupMark begins an entry that names a group.
const groupMark = "group:"

// groupForm is what the name of a group looks like: that of a function, without capitals.
const groupForm = `^[a-z0-9_-]{1,64}$`

var groupCharacters = regexp.MustCompile(`^[a-z0-9_-]+$`)

// Group names tools so that modes can list them as group:name. A group consists of
// names and patterns; there are no groups in groups.
func (r *Registry) Group(name string, entries ...string) error {
	switch {
	case len(name) > maxName || !groupCharacters.MatchString(name):
		return fmt.Errorf("tool group %q: the name of a group matches %s", name, groupForm)
	case r.groups[name] != nil:
		return fmt.Errorf("tool group %q is there twice", name)
	case len(entries) == 0:
		return fmt.Errorf("tool group %q: list its tools", name)
	}
	for _, e := range entries {
		if strings.HasPrefix(e, groupMark) {
			return fmt.Errorf("tool group %q: %s: a group cannot hold a group; list its tools", name, e)
		}
		if err := checkPattern(e); err != nil {
			return fmt.Errorf("tool group %q: %w", name, err)
		}
	}
	if r.groups == nil {
		r.groups = map[string][]string{}
	}
	r.groups[name] = slices.Clone(entries)
	return nil
}

// Entries returns all that a mode can list by name: the tools, then the groups.
func (r *Registry) Entries() []string {
	out := r.Names()
	for _, name := range slices.Sorted(maps.Keys(r.groups)) {
		out = append(out, groupMark+name)
	}
	return out
}

// IsPattern reports whether an entry stands for the tools that it matches.
func IsPattern(entry string) bool { return strings.ContainsAny(entry, "*?[") }

func checkPattern(entry string) error {
	if _, err := path.Match(entry, ""); err != nil {
		return fmt.Errorf("%q is not a pattern: %w", entry, err)
	}
	return nil
}

// expand returns the names that the entries stand for, each once, in the order of the
// entries; what a pattern matches is in the order of registration. What is wrong with the
// entries is told to warn.
func (r *Registry) expand(entries []string, warn func(format string, args ...any)) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var one func(entry string)
	one = func(entry string) {
		group, isGroup := strings.CutPrefix(entry, groupMark)
		switch {
		case isGroup && r.groups[group] == nil:
			warn("the mode lists tool group %q, which the configuration does not have", group)
		case isGroup:
			for _, e := range r.groups[group] {
				one(e)
			}
		case IsPattern(entry):
			for _, d := range r.definitions {
				// A pattern that is none was refused when it was read.
				if ok, err := path.Match(entry, d.Name); ok && err == nil {
					add(d.Name)
				}
			}
		default:
			add(entry)
		}
	}
	for i, e := range entries {
		if slices.Contains(entries[:i], e) {
			warn("the mode lists tool %q twice", e)
			continue
		}
		one(e)
	}
	return names
}
