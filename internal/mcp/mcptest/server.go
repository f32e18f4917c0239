package mcptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Ledger is the variable that names the file into which the tool append writes a line for
// each of its runs, and pids the server.
const Ledger = "APTIX_MCPTEST_LEDGER"

// pixel is a PNG of one dot.
var pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

type text struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type number struct {
	N int `json:"n"`
}

type pair struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

type none struct{}

// New returns a server of a kind.
func New(kind Kind) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "mcptest", Version: "1"}, nil)
	addTools(s)
	switch kind {
	case Legacy:
		s.AddReceivingMiddleware(refuse("server/discover"))
	case Mute:
		s.AddReceivingMiddleware(unanswered("tools/list"))
	case Endless, Many, Names, Bombs:
		s.AddReceivingMiddleware(listing(kind))
	}
	return s
}

func addTools(s *sdk.Server) {
	sdk.AddTool(s, echoTool("Says what it is told."), echo)
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds two numbers."}, func(_ context.Context, _ *sdk.CallToolRequest, in pair) (*sdk.CallToolResult, sum, error) {
		return nil, sum{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "image", Description: "Shows a dot."}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "A dot:"},
			&sdk.ImageContent{MIMEType: "image/png", Data: pixel},
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("beep")},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///dot.txt", MIMEType: "text/plain", Text: "dot"}},
			&sdk.ResourceLink{URI: "file:///dot.png", Name: "dot.png"},
		}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "slow", Description: "Takes n milliseconds."}, func(ctx context.Context, _ *sdk.CallToolRequest, in number) (*sdk.CallToolResult, any, error) {
		select {
		case <-time.After(time.Duration(in.N) * time.Millisecond):
			return said("done"), nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	})
	sdk.AddTool(s, &sdk.Tool{Name: "huge", Description: "Says n bytes."}, func(_ context.Context, _ *sdk.CallToolRequest, in number) (*sdk.CallToolResult, any, error) {
		return said(strings.Repeat("x", in.N)), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("it did not work")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "crash", Description: "Ends the server."}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		_, _ = fmt.Fprintln(os.Stderr, "crashing as told")
		syscall.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "change", Description: "Changes the definition of echo."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, echoTool(in.Text), echo)
		return said("changed"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "storm", Description: "Says n times that its tools have changed."}, func(ctx context.Context, _ *sdk.CallToolRequest, in number) (*sdk.CallToolResult, any, error) {
		for range in.N {
			sdk.AddTool(s, echoTool("Says what it is told."), echo)
		}
		return said("stormed"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "environment", Description: "Names its variables."}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		var names []string
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			names = append(names, name)
		}
		sort.Strings(names)
		return said(strings.Join(names, " ")), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "refuse", Description: "Fails with a text."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New(in.Text)
	})
	sdk.AddTool(s, &sdk.Tool{Name: "complain", Description: "Writes a line to stderr."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		_, err := fmt.Fprintln(os.Stderr, in.Text)
		return said("written"), nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "append", Description: "Writes a line."}, func(_ context.Context, req *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return said("written"), nil, appendLine(fmt.Sprintf("%d %v %s", os.Getpid(), req.Params.Meta["io.github.aptixhq/call"], in.Text))
	})
}

func echoTool(description string) *sdk.Tool { return &sdk.Tool{Name: "echo", Description: description} }

func echo(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
	return said(in.Text), nil, nil
}

func said(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

func appendLine(line string) (err error) {
	f, err := os.OpenFile(os.Getenv(Ledger), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintln(f, line)
	return err
}

// refuse answers a method as one that is not known.
func refuse(name string) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == name {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
			}
			return next(ctx, method, req)
		}
	}
}

// unanswered leaves a method without an answer.
func unanswered(name string) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == name {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, method, req)
		}
	}
}

// listing answers with lists that no good server has.
func listing(kind Kind) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, req)
			}
			res := &sdk.ListToolsResult{Tools: listOf(kind)}
			if kind == Endless {
				res.NextCursor = "on"
			}
			return res, nil
		}
	}
}

func listOf(kind Kind) []*sdk.Tool {
	object := map[string]any{"type": "object"}
	switch kind {
	case Many:
		var out []*sdk.Tool
		for i := range 300 {
			out = append(out, &sdk.Tool{Name: fmt.Sprintf("t%d", i), InputSchema: object})
		}
		return out
	case Names:
		var out []*sdk.Tool
		for _, name := range []string{"good", "admin.list", "twice", "twice", "Read", "read", "a-b", "a_b", "", "with space", "line\nbreak",
			"gооd" /* Cyrillic */, strings.Repeat("n", 129), strings.Repeat("n", 60)} {
			out = append(out, &sdk.Tool{Name: name, Description: "A tool.", InputSchema: object})
		}
		return out
	case Bombs:
		return []*sdk.Tool{
			{Name: "good", Description: "A tool.", InputSchema: object},
			{Name: "array", Description: "A tool.", InputSchema: map[string]any{"type": "array"}},
			{Name: "remote", Description: "A tool.", InputSchema: map[string]any{"type": "object", "$ref": "https://example.com/schema.json"}},
			{Name: "file", Description: "A tool.", InputSchema: map[string]any{"type": "object", "$ref": "file:///etc/passwd"}},
			{Name: "deep", Description: "A tool.", InputSchema: deep(100)},
			{Name: "large", Description: "A tool.", InputSchema: map[string]any{"type": "object", "description": strings.Repeat("x", 100<<10)}},
			{Name: "pattern", Description: "A tool.", InputSchema: map[string]any{"type": "object",
				"properties": map[string]any{"p": map[string]any{"type": "string", "pattern": "(?=x)"}}}},
			{Name: "hidden", Description: "A tool.\U000E0041\U000E0042", InputSchema: object},
			{Name: "reversed", Description: "A tool.\u202e", InputSchema: object},
			{Name: "long", Description: strings.Repeat("x", 20<<10), InputSchema: object},
		}
	}
	return []*sdk.Tool{{Name: "one", InputSchema: object}}
}

func deep(levels int) map[string]any {
	s := map[string]any{"type": "object"}
	for range levels {
		s = map[string]any{"type": "object", "properties": map[string]any{"p": s}}
	}
	return s
}

// odd behaves like no server at all, and reports whether the kind is one of those.
func odd(kind Kind) bool {
	switch kind {
	case Silent:
		_, _ = new(bytes.Buffer).ReadFrom(os.Stdin)
	case Deaf:
		time.Sleep(time.Hour)
	case Junk:
		fmt.Println("Welcome to my server!")
		_, _ = new(bytes.Buffer).ReadFrom(os.Stdin)
	case Flood:
		// A gigabyte that looks like the beginning of an answer.
		_, _ = os.Stdout.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"tools":"`)
		for part, n := bytes.Repeat([]byte("x"), 1<<20), 0; n < 1<<10; n++ {
			if _, err := os.Stdout.Write(part); err != nil {
				return true
			}
		}
	default:
		return false
	}
	return true
}
