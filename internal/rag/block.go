package rag

import (
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/fence"
)

// Chunk is a retrieved passage. An answer cites it by its ID.
type Chunk struct {
	ID   string
	Path string
	// Lines is where in the file it stands, such as 40-85; may be empty.
	Lines    string
	Language string // may be empty
	Text     string
}

// Block writes the [CONTEXT] block that the canonical request carries as it is
// (AGN-003 §5.2), the chunks in the given order. It returns "" when there are none,
// so that the request has no empty block.
func Block(chunks []Chunk) string {
	if len(chunks) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("[CONTEXT]\n")
	for i, c := range chunks {
		fmt.Fprintf(&b, "\n=== CHUNK %d ===\n", i+1)
		fence.Field(&b, "Id", c.ID)
		fence.Field(&b, "Path", c.Path)
		fence.Field(&b, "Lines", c.Lines)
		fence.Field(&b, "Language", c.Language)
		fence.Text(&b, c.Language, c.Text)
	}
	return b.String()
}
