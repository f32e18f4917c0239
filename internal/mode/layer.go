package mode

import (
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Layer returns the mode layer, the text that goes with every model call as its
// instructions (decision 27): the current mode and what it asks of the model, the
// catalogue with its when-to-use lines, and the solution context latched on the
// session. The same inputs give the same bytes.
//
// What a client wrote comes last and between marks: nothing in it can stand before
// the server's own lines.
func Layer(c *Catalog, current agent.ModeKey, solutionContext string) string {
	layer, ok := c.layers[current]
	if !ok {
		layer = c.layer(current)
	}
	if strings.TrimSpace(solutionContext) != "" {
		layer += "\n[SOLUTION CONTEXT]\n" + solutionContext + "\n[END OF SOLUTION CONTEXT]\n"
	}
	return layer
}

func (c *Catalog) layer(current agent.ModeKey) string {
	var b strings.Builder
	m, ok := c.Get(current)
	b.WriteString("[AGENT MODE]\n")
	fmt.Fprintf(&b, "Current mode: %s\n", current)
	if !ok {
		m = c.Default()
		fmt.Fprintf(&b, "This mode is no longer configured. Work as in %s until the user picks another mode.\n", m.Key)
	}
	fmt.Fprintf(&b, "%s: %s\n", m.DisplayName, flat(m.Description))
	if m.SystemPromptSummary != "" {
		fmt.Fprintln(&b, flat(m.SystemPromptSummary))
	}

	if len(m.Instructions) > 0 {
		b.WriteString("\n[MODE INSTRUCTIONS]\n")
		for i, text := range m.Instructions {
			fmt.Fprintf(&b, "%d. %s\n", i+1, strings.ReplaceAll(text, "\n", "\n   "))
		}
	}

	b.WriteString("\n[MODES]\n")
	var deprecated []string
	for _, m := range c.modes {
		fmt.Fprintf(&b, "- %s (%s): %s\n", m.Key, m.DisplayName, m.WhenToUse)
		if m.Status == StatusDeprecated {
			deprecated = append(deprecated, string(m.Key))
		}
	}
	if len(deprecated) > 0 {
		fmt.Fprintf(&b, "Deprecated, do not propose: %s\n", strings.Join(deprecated, ", "))
	}
	fmt.Fprintf(&b, "Change the mode only with %s, after the user has agreed. The tools of the new mode are available from the next turn on.\n", changeMode)
	return b.String()
}

// flat puts a text on one line.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }
