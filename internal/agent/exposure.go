package agent

import (
	"fmt"
	"path"
	"slices"
)

// Exposure says which tools bring together what must not come together without a user: a
// session that has met private data and a text that anybody may have written leaks the one
// when the other asks for it and a tool carries it out. Tools are named as in ApprovalRules,
// by their names or by patterns. The zero Exposure says nothing of any tool.
type Exposure struct {
	// Private are tools whose results are not for everybody.
	Private []string `koanf:"private"`
	// Untrusted are tools whose results others may have written.
	Untrusted []string `koanf:"untrusted"`
	// Outgoing are tools that can carry something out.
	Outgoing []string `koanf:"outgoing"`
}

// IsZero reports whether there is nothing that a call could be held against.
func (e Exposure) IsZero() bool {
	return len(e.Private) == 0 || len(e.Untrusted) == 0 || len(e.Outgoing) == 0
}

// Asks reports whether a call of a tool needs its user, whatever the rules say, after the
// tools that the session has met, in earlier turns and in this one.
func (e Exposure) Asks(tool string, earlier, now []string) bool {
	met := func(patterns []string) bool {
		is := func(m string) bool { return names(patterns, m) }
		return slices.ContainsFunc(earlier, is) || slices.ContainsFunc(now, is)
	}
	return !e.IsZero() && names(e.Outgoing, tool) && met(e.Private) && met(e.Untrusted)
}

func names(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		matches, err := path.Match(p, tool) // a pattern that is none was refused when it was read
		return p == tool || err == nil && matches
	})
}

// Problems returns what is wrong with the lists.
func (e Exposure) Problems() []string {
	var wrong []string
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"private", e.Private}, {"untrusted", e.Untrusted}, {"outgoing", e.Outgoing}} {
		for _, p := range list.patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				wrong = append(wrong, fmt.Sprintf("%s: %q is neither the name of a tool nor a pattern of names", list.name, p))
			}
		}
	}
	set := len(e.Private) > 0 || len(e.Untrusted) > 0 || len(e.Outgoing) > 0
	if set && e.IsZero() {
		wrong = append(wrong, "private, untrusted and outgoing belong together: with one of them empty nothing is ever asked")
	}
	return wrong
}
