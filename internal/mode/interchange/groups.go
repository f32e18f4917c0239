package interchange

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/mode"
)

// The groups of tools that other agents know.
const (
	groupRead    = "read"
	groupEdit    = "edit"
	groupCommand = "command"
	groupBrowser = "browser"
	groupMCP     = "mcp"
)

// counterpart is what does here what a group of another agent allows.
type counterpart struct {
	group string
	tools []string
}

// counterparts are tools of 'aptix chat', in the order in which a mode lists them. A group
// that has none is reported.
func counterparts() []counterpart {
	return []counterpart{
		{groupRead, []string{"list_files", "read_file", "search_files"}},
		{groupEdit, []string{"write_file"}},
		{groupCommand, []string{"run_command"}},
	}
}

// grant is what a mode of another agent allows: a group of tools, within bounds.
type grant struct {
	group string
	// bounded says that only files which match one of the patterns may be written.
	bounded     bool
	patterns    []string
	description string
}

// merge makes one grant of each group. Of a bound and none the bound is kept: it was
// written down for a reason.
func merge(grants []grant, n *notes) []grant {
	var out []grant
	for _, g := range grants {
		i := slices.IndexFunc(out, func(o grant) bool { return o.group == g.group })
		if i < 0 {
			out = append(out, g)
			continue
		}
		o := &out[i]
		switch {
		case !o.bounded && !g.bounded:
			n.add(Merged, "group %s is there twice", g.group)
		case !o.bounded || !g.bounded:
			n.add(Merged, "group %s is there with and without fileRegex; the bound was kept", g.group)
		default:
			n.add(Merged, "group %s is there twice; files that match either fileRegex may be written", g.group)
		}
		o.bounded = o.bounded || g.bounded
		for _, p := range g.patterns {
			if !slices.Contains(o.patterns, p) {
				o.patterns = append(o.patterns, p)
			}
		}
		o.description = joined(o.description, g.description, "; ")
	}
	return out
}

func joined(a, b, by string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + by + b
}

// clientTools maps grants to the tools that a mode allows.
func clientTools(grants []grant, n *notes) *mode.ClientTools {
	grants = merge(grants, n)
	out := &mode.ClientTools{Allow: []string{}}
	for _, c := range counterparts() {
		i := slices.IndexFunc(grants, func(g grant) bool { return g.group == c.group })
		if i < 0 {
			continue
		}
		g := grants[i]
		if g.bounded && g.group != groupEdit {
			n.add(LeftOut, "fileRegex of group %s: it bounds what is written only", g.group)
			g.bounded = false
		}
		if g.bounded {
			patterns := compiling(g, n)
			if len(patterns) == 0 {
				n.add(Refused, "group %s: without its bound it would allow every file, so %s is not allowed", g.group, strings.Join(c.tools, ", "))
				continue
			}
			out.Files = append(out.Files, mode.FileRule{Tools: c.tools, Patterns: patterns, Description: g.description})
		}
		out.Allow = append(out.Allow, c.tools...)
	}
	for _, g := range grants {
		switch {
		case g.group == groupMCP:
			n.add(LeftOut, "group mcp: list in tools which servers the mode may use, such as github__*")
		case !slices.ContainsFunc(counterparts(), func(c counterpart) bool { return c.group == g.group }):
			n.add(LeftOut, "group %s: there is no tool for it", g.group)
		}
	}
	return out
}

// compiling returns the patterns of a grant that compile here.
func compiling(g grant, n *notes) []string {
	var out []string
	for _, p := range g.patterns {
		if _, err := regexp.Compile(p); err != nil {
			hint := ""
			if strings.HasPrefix(p, "*") {
				hint = "; it looks like a file name with wildcards, and fileRegex is a regular expression"
			}
			n.add(Refused, "fileRegex %q of group %s: %s%s", p, g.group, mode.PatternFault(err), hint)
			continue
		}
		out = append(out, p)
	}
	return out
}

// pattern is the one expression that says what several say.
func pattern(patterns []string) string {
	if len(patterns) == 1 {
		return patterns[0]
	}
	var parts []string
	for _, p := range patterns {
		parts = append(parts, fmt.Sprintf("(?:%s)", p))
	}
	return strings.Join(parts, "|")
}
