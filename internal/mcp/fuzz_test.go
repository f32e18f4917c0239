package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// FuzzFrames reads what a server may write, as a local and as a remote one: no frame is
// longer than the bound, a body longer than its bound fails at its bound, and a result is
// JSON in which the data of images is not repeated.
// It holds row S-29 of docs/security.md.
func FuzzFrames(f *testing.F) {
	const result = `{"jsonrpc":"2.0","id":1,"result":`
	for _, seed := range []string{
		"", "\n", "{}\n", result + `{"content":[{"type":"text","text":"x"}]}}` + "\n", result + `{"content":[{"type":"text","text":"\ud800"}]}}` + "\n",
		result + `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}}` + "\n", result + `{"isError":true}}` + "\n",
		result + `{"structuredContent":{"a":1e400},"content":[{"type":"text","text":"{\"a\":1}"}]}}` + "\r\n",
		result + `{"content":[{"type":"resource","resource":{"uri":"x","blob":"AA=="}},{"type":"resource"},{"type":"teapot"}]}}` + "\n",
		strings.Repeat("x", 5000) + "\n", strings.Repeat("[", 3000) + "\n", "\xef\xbb\xbf{}\n", `{"jsonrpc":"2.0","method":"ping","id":{}}` + "\n", `[{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n",
		result + `{"content":null}}`, "{\x00}\n", `{"jsonrpc":"2.0","ID":1,"result":{},"reſult":{}}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	const most = 4 << 10
	f.Fuzz(func(t *testing.T, said []byte) {
		all, err := io.ReadAll(&boundedBody{io.NopCloser(bytes.NewReader(said)), most})
		if !bytes.HasPrefix(said, all) || len(all) > most || errors.Is(err, errTooLarge) != (len(said) > most) {
			t.Fatalf("of %d bytes %d were read, %v", len(said), len(all), err)
		}
		transport := &sdk.IOTransport{Reader: io.NopCloser(bytes.NewReader(said)), Writer: discard{}, MaxLineLength: most}
		conn, err := transport.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		longest := longestLine(said)
		for {
			m, err := conn.Read(t.Context())
			if err != nil {
				return
			}
			raw, err := jsonrpc.EncodeMessage(m)
			if err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
			if longest <= most && len(raw) > 8*most { // escapes lengthen it
				t.Fatalf("a frame of %d bytes", len(raw))
			}
			if answer, ok := m.(*jsonrpc.Response); ok && answer.Error == nil {
				checkResult(t, answer.Result)
			}
		}
	})
}

// checkResult reads a frame as the result of a call.
func checkResult(t *testing.T, raw json.RawMessage) {
	t.Helper()
	var res sdk.CallToolResult
	if json.Unmarshal(raw, &res) != nil {
		return
	}
	content, err := read(&res)
	if err != nil {
		if len(err.Error()) > maxFault+200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	if !json.Valid([]byte(content.Text)) || len(content.Images) > maxImages {
		t.Errorf("%s was read as %s with %d images", raw, content.Text, len(content.Images))
	}
	for _, image := range content.Images {
		if len(image.DataBase64) > 64 && strings.Contains(content.Text, image.DataBase64) {
			t.Errorf("the data of an image stands in %s", content.Text)
		}
	}
}

func longestLine(b []byte) int {
	longest := 0
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		longest = max(longest, len(lines.Bytes()))
	}
	return longest
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
