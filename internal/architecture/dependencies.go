package architecture

import (
	"slices"
	"strings"
)

// modules returns the modules that go.mod requires for this module's own sake: those
// not marked indirect, and those that hold one of its tools.
func modules(gomod string) []string {
	var direct, indirect, tools []string
	block := ""
	for line := range strings.Lines(gomod) {
		code, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = slices.Insert(words, 0, block)
		}
		switch {
		case words[0] == "tool":
			tools = append(tools, words[1])
		case words[0] != "require":
		case strings.TrimSpace(comment) == "indirect":
			indirect = append(indirect, words[1])
		default:
			direct = append(direct, words[1])
		}
	}
	for _, m := range indirect {
		if slices.ContainsFunc(tools, func(t string) bool { return t == m || strings.HasPrefix(t, m+"/") }) {
			direct = append(direct, m)
		}
	}
	slices.Sort(direct)
	return direct
}
