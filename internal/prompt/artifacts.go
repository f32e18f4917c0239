package prompt

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/fence"
)

// artifactsHeader opens the block of files that came with the turn (decision 21).
const artifactsHeader = "[INPUT_ARTIFACTS]"

// ArtifactsBlock shows the files that a user supplied with the turn: what each is
// called and, when it is text, what it holds. A binary file is named by size and
// hash; the wire request attaches it. It returns "" when there are none.
func ArtifactsBlock(artifacts []agent.Artifact) string {
	if len(artifacts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(artifactsHeader + "\n")
	for _, a := range artifacts {
		b.WriteByte('\n')
		fence.Field(&b, "path", a.RelativePath)
		fence.Field(&b, "file name", a.FileName)
		fence.Field(&b, "origin", a.Origin)
		fence.Field(&b, "language", a.Language)
		fence.Field(&b, "mime type", a.MimeType)
		data, text := ArtifactData(a)
		if text {
			fence.Text(&b, a.Language, string(data))
			continue
		}
		fmt.Fprintf(&b, "binary: %d bytes, sha256 %s\n", len(data), SHA256(data))
	}
	return valid(b.String())
}

// ArtifactData returns the bytes of an artifact and whether they are text, which
// the artifacts block shows, or binary, which the wire request attaches as a file.
func ArtifactData(a agent.Artifact) (data []byte, text bool) {
	if !strings.EqualFold(a.Encoding, "base64") {
		return []byte(valid(a.Contents)), true
	}
	data, err := DecodeBase64(a.Contents)
	if err != nil {
		// The contract lets no such artifact in; as text it stays visible.
		return []byte(valid(a.Contents)), true
	}
	return data, isText(data)
}

// DecodeBase64 decodes the standard alphabet with or without padding.
func DecodeBase64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "=\r\n"))
}

// isText reports whether a person could read data: UTF-8 without control characters
// other than those that lay out a page.
func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for _, c := range data {
		if c < ' ' && !strings.ContainsRune("\t\n\f\r", rune(c)) {
			return false
		}
	}
	return true
}
