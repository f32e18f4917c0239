package mcp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Separator stands between the name of a server and that of its tool.
const Separator = "__"

// maxName is how long the name of a function may be at a provider. The protocol itself
// allows twice as much.
const maxName = 64

var toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// maxToolName is how long the name of a tool may be at its server.
const maxToolName = 128

// fullName returns the name under which a model knows a tool. The protocol allows dots
// and slashes, which no provider takes; both become underscores.
func fullName(server, tool string) (string, error) {
	if len(tool) > maxToolName || !toolName.MatchString(tool) {
		return "", fmt.Errorf("its name %s is not 1 to 128 of the characters A-Z, a-z, 0-9, _, -, . and /", strconv.QuoteToASCII(clip(tool, 80)))
	}
	name := server + Separator + strings.NewReplacer(".", "_", "/", "_").Replace(tool)
	if len(name) > maxName {
		return "", fmt.Errorf("its full name %s has %d characters, more than the %d that providers take", name, len(name), maxName)
	}
	return name, nil
}

// folded maps the spellings of a name that a reader takes for the same to one.
func folded(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}

// clip shortens a text of others for a message.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// commandLine renders a command so that a person can tell its arguments apart.
func commandLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\$*?;&|<>()`, r) }) {
			out[i] = strconv.Quote(w)
		}
	}
	return strings.Join(out, " ")
}
