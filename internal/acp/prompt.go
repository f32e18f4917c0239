package acp

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/aptixhq/aptix/client"
)

// turn makes a user turn of a prompt. A resource that is in the prompt goes along as an
// artifact; one that is only named is left to the tools.
func (s *session) turn(prompt []acp.ContentBlock) (client.UserTurn, error) {
	t := client.UserTurn{SessionID: string(s.id), TurnID: client.NewID()}
	var text strings.Builder
	attached := map[string]bool{}
	for _, block := range prompt {
		switch {
		case block.Text != nil:
			text.WriteString(block.Text.Text)
		case block.ResourceLink != nil:
			text.WriteString(s.mention(block.ResourceLink.Uri, block.ResourceLink.Name))
		case block.Resource != nil:
			a, uri, err := s.artifact(block.Resource.Resource)
			if err != nil {
				return t, err
			}
			text.WriteString(s.mention(uri, a.FileName))
			if !attached[a.RelativePath] {
				attached[a.RelativePath] = true
				t.InputArtifacts = append(t.InputArtifacts, a)
			}
		case block.Image != nil:
			t.ClipboardImages = append(t.ClipboardImages, client.ClipboardImage{
				ID: fmt.Sprintf("image%d", len(t.ClipboardImages)+1), MimeType: block.Image.MimeType, DataBase64: block.Image.Data,
			})
		default:
			return t, errors.New("a prompt may have text, resources and images")
		}
	}
	t.Instruction = text.String()
	return t, nil
}

// mention names a file by its path in the folder, as the tools do, and anything else by
// its address.
func (s *session) mention(uri, name string) string {
	if local, ok := s.local(uri); ok {
		return "`" + local + "`"
	}
	return "[" + cmp.Or(name, uri) + "](" + uri + ")"
}

// artifact makes an artifact of a resource.
func (s *session) artifact(r acp.EmbeddedResourceResource) (client.InputArtifact, string, error) {
	a := client.InputArtifact{Origin: "user"}
	var uri string
	var kind *string
	switch {
	case r.TextResourceContents != nil:
		uri, kind, a.Contents = r.TextResourceContents.Uri, r.TextResourceContents.MimeType, r.TextResourceContents.Text
	case r.BlobResourceContents != nil:
		uri, kind, a.Contents, a.Encoding = r.BlobResourceContents.Uri, r.BlobResourceContents.MimeType, r.BlobResourceContents.Blob, "base64"
	default:
		return a, "", errors.New("a resource needs a text or a blob")
	}
	var ok bool
	if a.RelativePath, ok = s.local(uri); !ok {
		u, err := url.Parse(uri)
		if err != nil {
			return a, "", fmt.Errorf("the address of a resource: %w", err)
		}
		if a.RelativePath = path.Base(u.Path); a.RelativePath == "." || a.RelativePath == "/" {
			a.RelativePath = "resource"
		}
	}
	a.FileName = path.Base(a.RelativePath)
	if kind != nil {
		a.MimeType = *kind
	} else {
		a.MimeType, _, _ = strings.Cut(mime.TypeByExtension(path.Ext(a.FileName)), ";")
	}
	return a, uri, nil
}

// local returns the path of a file in the folder, with slashes.
func (s *session) local(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" && u.Scheme != "" {
		return "", false
	}
	rel, err := filepath.Rel(s.tools.Dir(), filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", false
	}
	return filepath.ToSlash(rel), true
}
