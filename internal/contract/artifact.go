package contract

import (
	"cmp"
	"mime"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// The encodings of an artifact's contents (AGN-034 §4.2).
const (
	encodingUTF8   = "utf8"
	encodingBase64 = "base64"
)

// readArtifacts reads inputArtifacts (AGN-034 §4.2).
func readArtifacts(list value, limit int, b *budget) []agent.Artifact {
	var out []agent.Artifact
	placed := map[string]string{} // normalised path → pointer of the artifact that has it
	for _, item := range list.atMost(limit, list.list("AGN034-2.1-c")) {
		if o, ok := item.object("AGN034-2.1-c"); ok {
			out = append(out, readArtifact(o, b, placed))
		}
	}
	return out
}

func readArtifact(o *object, b *budget, placed map[string]string) agent.Artifact {
	a := agent.Artifact{
		RelativePath: readPath(o.need("relativePath", "AGN034-4.2-a"), placed),
		FileName:     readFileName(o.need("fileName", "AGN034-4.2-b")),
		Origin:       o.need("origin", "AGN034-4.2-d").oneOf("AGN034-4.2-d", "ide", "user"),
		MimeType:     readMediaType(o.get("mimeType")),
		Language:     o.get("language").str("AGN034-4.2-e"),
		// The default is filled in, so that naming it makes no other request.
		Encoding: cmp.Or(o.get("encoding").oneOf("AGN034-4.2-f", encodingUTF8, encodingBase64), encodingUTF8),
	}
	a.Contents = readContents(o.need("contents", "AGN034-4.2-c"), a.Encoding, b)
	o.done("an input artifact")
	return a
}

// readContents reads the contents, which may be empty. They are advisory: they are
// measured and carried, never looked into.
func readContents(v value, encoding string, b *budget) string {
	contents, ok := v.text("AGN034-4.2-c")
	if !ok {
		return ""
	}
	size := int64(len(contents))
	if encoding == encodingBase64 {
		if size, ok = base64Size(contents); !ok {
			v.fault("AGN034-4.2-f", notBase64)
		}
	}
	b.spend(size, v)
	return contents
}

// readMediaType reads the optional media type of an artifact. It can end up in a data
// URL, so it must be one; an empty one says nothing.
func readMediaType(v value) string {
	s := v.str("AGN034-4.2-e")
	if s != "" && !isMediaType(s) {
		v.fault("AGN034-4.2-e", "is %s; a media type looks like text/plain.", quote(s))
	}
	return s
}

func isMediaType(s string) bool {
	const longest = 255
	if len(s) > longest {
		return false
	}
	kind, _, err := mime.ParseMediaType(s)
	return err == nil && strings.Contains(kind, "/")
}
