package acp

import (
	"path/filepath"
	"testing"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
)

func TestTurn(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tools, err := localtools.Open(dir, localtools.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := &session{id: "s1", tools: tools}
	text := func(uri string) acp.ContentBlock {
		return acp.ResourceBlock(acp.EmbeddedResourceResource{TextResourceContents: &acp.TextResourceContents{Uri: uri, Text: "package b"}})
	}
	artifact := func(path, name string) client.InputArtifact {
		return client.InputArtifact{RelativePath: path, FileName: name, Contents: "package b", Origin: "user"}
	}
	for _, test := range []struct {
		name   string
		prompt []acp.ContentBlock
		want   client.UserTurn
		bad    bool
	}{
		{name: "text in pieces", prompt: []acp.ContentBlock{acp.TextBlock("look "), acp.TextBlock("here")}, want: client.UserTurn{Instruction: "look here"}},
		{name: "a file of the folder by name", prompt: []acp.ContentBlock{acp.ResourceLinkBlock("b.aptix", "file://"+dir+"/src/b.aptix")},
			want: client.UserTurn{Instruction: "`src/b.aptix`"}},
		{name: "a file of elsewhere by name", prompt: []acp.ContentBlock{acp.ResourceLinkBlock("passwd", "file:///etc/passwd")},
			want: client.UserTurn{Instruction: "[passwd](file:///etc/passwd)"}},
		{name: "a file that goes along, twice", prompt: []acp.ContentBlock{text("file://" + dir + "/src/b.aptix"), acp.TextBlock("!"), text("file://" + dir + "/src/b.aptix")},
			want: client.UserTurn{Instruction: "`src/b.aptix`!`src/b.aptix`", InputArtifacts: []client.InputArtifact{artifact("src/b.aptix", "b.aptix")}}},
		{name: "a file of elsewhere goes along", prompt: []acp.ContentBlock{text("file:///other/c.aptix")},
			want: client.UserTurn{Instruction: "[c.aptix](file:///other/c.aptix)", InputArtifacts: []client.InputArtifact{artifact("c.aptix", "c.aptix")}}},
		{name: "a resource without a name", prompt: []acp.ContentBlock{text("zed://")},
			want: client.UserTurn{Instruction: "[resource](zed://)", InputArtifacts: []client.InputArtifact{artifact("resource", "resource")}}},
		{name: "bytes and a picture", prompt: []acp.ContentBlock{
			acp.ResourceBlock(acp.EmbeddedResourceResource{BlobResourceContents: &acp.BlobResourceContents{Uri: "file://" + dir + "/x.aptix", Blob: "AA==", MimeType: acp.Ptr("application/aptix")}}),
			acp.ImageBlock("BB==", "image/png")},
			want: client.UserTurn{Instruction: "`x.aptix`",
				InputArtifacts:  []client.InputArtifact{{RelativePath: "x.aptix", FileName: "x.aptix", Contents: "AA==", Origin: "user", MimeType: "application/aptix", Encoding: "base64"}},
				ClipboardImages: []client.ClipboardImage{{ID: "image1", MimeType: "image/png", DataBase64: "BB=="}}}},
		{name: "sound", prompt: []acp.ContentBlock{acp.AudioBlock("AA==", "audio/wav")}, bad: true},
		{name: "an empty resource", prompt: []acp.ContentBlock{acp.ResourceBlock(acp.EmbeddedResourceResource{})}, bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := s.turn(test.prompt)
			if (err != nil) != test.bad {
				t.Fatalf("got error %v", err)
			}
			if test.bad {
				return
			}
			test.want.SessionID = "s1"
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(client.UserTurn{}, "TurnID")); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
		})
	}
}
