package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// maxImages is how many images of one result a model is shown.
const maxImages = 8

// imageTypes are what models can look at.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// result is what a call gave, as the model reads it: the protocol's own form, in which the
// data of images, sounds and files is not repeated. Whatever the server wrote stands in
// JSON strings, so that it cannot pass for anything else.
type result struct {
	Content           []block `json:"content,omitempty"`
	StructuredContent any     `json:"structuredContent,omitempty"`
}

type block struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	// Bytes is the size of data that is not in here; Note says where it is, or why it is
	// nowhere.
	Bytes int    `json:"bytes,omitempty"`
	Note  string `json:"note,omitempty"`
}

// read turns what a server answered into a result, or into the tool's own error.
func read(res *sdk.CallToolResult) (tool.Content, error) {
	if res.NeedsInput() {
		return tool.Content{}, fmt.Errorf("the server asks for input of the user, which it is not given here; call the tool with all that it needs")
	}
	var images []agent.Image
	var r result
	r.StructuredContent = res.StructuredContent
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok && repeats(t.Text, res.StructuredContent) {
			// Servers say it twice, for clients that know texts only. The text has the
			// numbers as they were written.
			r.StructuredContent = json.RawMessage(t.Text)
			continue
		}
		r.Content = append(r.Content, readBlock(c, &images))
	}
	if res.IsError {
		return tool.Content{}, fmt.Errorf("%s", r.fault())
	}
	text, err := encode(r)
	if err != nil {
		return tool.Content{}, fmt.Errorf("the server's result cannot be read: %w", err)
	}
	return tool.Content{Text: string(text), Images: images}, nil
}

// readBlock reads a part of a result; images go to their own list.
func readBlock(c sdk.Content, images *[]agent.Image) block {
	switch c := c.(type) {
	case *sdk.TextContent:
		return block{Type: "text", Text: c.Text}
	case *sdk.ImageContent:
		return image(block{Type: "image", MIMEType: c.MIMEType}, c.Data, images)
	case *sdk.AudioContent:
		return block{Type: "audio", MIMEType: c.MIMEType, Bytes: len(c.Data), Note: "left out: sounds are not shown"}
	case *sdk.ResourceLink:
		return block{Type: "resource_link", URI: c.URI, Name: c.Name, MIMEType: c.MIMEType, Text: c.Description}
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return block{Type: "resource", Note: "left out: it is empty"}
		}
		b := block{Type: "resource", URI: c.Resource.URI, MIMEType: c.Resource.MIMEType, Text: c.Resource.Text}
		if len(c.Resource.Blob) > 0 {
			return image(b, c.Resource.Blob, images)
		}
		return b
	}
	return block{Type: "unknown", Note: "left out: this kind of content is not known"}
}

// image adds data to the images when it is one that models can look at.
func image(b block, data []byte, images *[]agent.Image) block {
	b.Bytes = len(data)
	switch {
	case !slices.Contains(imageTypes, b.MIMEType):
		b.Note = "left out: only images can be shown, of type " + strings.Join(imageTypes, ", ")
	case len(*images) == maxImages:
		b.Note = fmt.Sprintf("left out: a result has at most %d images", maxImages)
	default:
		*images = append(*images, agent.Image{ID: fmt.Sprintf("image_%d", len(*images)+1), MimeType: b.MIMEType,
			DataBase64: base64.StdEncoding.EncodeToString(data)})
		b.Note = fmt.Sprintf("image %d of this result", len(*images))
	}
	return b
}

// repeats reports whether a text is the JSON of the structured content.
func repeats(text string, structured any) bool {
	var v any
	return structured != nil && json.Unmarshal([]byte(text), &v) == nil && reflect.DeepEqual(v, structured)
}

// maxFault bounds the words of a server in an error.
const maxFault = 16 << 10

// fault is what a tool says of its failure.
func (r result) fault() string {
	var texts []string
	for _, b := range r.Content {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) == 0 {
		if b, err := encode(r); err == nil && len(b) > len("{}") {
			texts = append(texts, string(b))
		}
	}
	if len(texts) == 0 {
		return "the tool failed and did not say why"
	}
	return clip(strings.Join(texts, "\n"), maxFault)
}
