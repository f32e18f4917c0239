package prompt

import (
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/fence"
)

// imagesHeader opens the block of pasted pictures (decision 21).
const imagesHeader = "[CLIPBOARD_IMAGES]"

// ImagesBlock lists the pasted pictures in the order in which the wire request
// attaches them, without their data. It returns "" when there are none.
func ImagesBlock(images []agent.Image) string {
	if len(images) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(imagesHeader + "\n")
	for _, i := range images {
		b.WriteByte('\n')
		fence.Field(&b, "image", i.ID)
		fence.Field(&b, "mime type", i.MimeType)
		data, err := DecodeBase64(i.DataBase64)
		if err != nil {
			// The contract lets no such image in.
			data = []byte(i.DataBase64)
		}
		fmt.Fprintf(&b, "%d bytes, sha256 %s\n", len(data), SHA256(data))
	}
	return valid(b.String())
}
