package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/contract"
)

var update = flag.Bool("update", false, "write testdata/openapi.json anew")

func TestOpenAPI_IsTheOneWePublished(t *testing.T) {
	const golden = "testdata/openapi.json"
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("first difference in line %d:\n-%s\n+%s", i+1, w[i], g[i])
			break
		}
	}
	t.Error("the public API has changed. If that is meant, run `go test ./internal/server -run TestOpenAPI -update`, " +
		"read the diff of testdata/openapi.json as a client would, and write a line in CHANGELOG.md; a client that relies on what " +
		"went away is broken by it. If it is not meant, a type or a route has changed by accident.")
}

func TestOpenAPI_IsServedAsGenerated(t *testing.T) {
	want, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	a := newRig(t).do(t, "GET", "/openapi.json", "")
	if a.Body.String() != string(want) {
		t.Error("/openapi.json is another document")
	}
	if strings.Contains(a.Body.String(), `"$schema"`) {
		t.Error("the document has $schema members")
	}
}

// The published schema of a request and the decoder that guards the door agree on
// what is right. (What is wrong the decoder judges more finely.)
func TestOpenAPI_RequestsAgreeWithTheDecoder(t *testing.T) {
	const (
		results  = `{"sessionId":"s1","turnId":"t1","toolResults":[`
		ok       = `{"toolCallId":"c","executionMs":1,"resultJson":"{}"}`
		artifact = `{"relativePath":"src/a.go","fileName":"a.go","contents":"","origin":"ide"}`
		image    = `{"id":"i","mimeType":"image/png","dataBase64":"aGk="}`
	)
	turn := func(members string) string { return `{"sessionId":"s1","turnId":"t1",` + members + `}` }
	execute := func(b []byte) error { _, err := contract.DecodeExecute(b, contract.Limits{}); return err }
	session := func(b []byte) error { _, err := contract.DecodeCreateSession(b, contract.Limits{}); return err }
	mode := func(b []byte) error { _, err := contract.DecodeSetMode(b, contract.Limits{}); return err }
	tools := func(b []byte) error { _, err := contract.DecodeSetTools(b, contract.Limits{}); return err }
	for _, tt := range []struct {
		method, path string
		decode       func([]byte) error
		body         string
		ok           bool
	}{
		{"post", "/v1/agent/execute", execute, hello, true},
		{"post", "/v1/agent/execute", execute, turn(`"inputArtifacts":[` + artifact + `]`), true},
		{"post", "/v1/agent/execute", execute, turn(`"clipboardImages":[` + image + `]`), true},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","stream":true,"solutionContextText":"s","workspaceId":"w","repository":"r","language":"go","agentContextId":"a","conversationContextId":"c"`), true},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","ragScope":{"conditions":[{"key":"repo","operator":"==","values":["a"]}]}`), true},
		{"post", "/v1/agent/execute", execute, results + ok + `]}`, true},
		{"post", "/v1/agent/execute", execute, results + `{"toolCallId":"c","executionMs":0,"errorMessage":"no"}]}`, true},

		{"post", "/v1/agent/execute", execute, `{"sessionId":"s1","instruction":"x"}`, false},
		{"post", "/v1/agent/execute", execute, `{"turnId":"t1","instruction":"x"}`, false},
		{"post", "/v1/agent/execute", execute, `{"sessionId":"s1","turnId":"t1"}`, false},
		{"post", "/v1/agent/execute", execute, `{"sessionId":"s 1","turnId":"t1","instruction":"x"}`, false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","mode":"general"`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","tools":[]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":1`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","stream":"yes"`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","toolResults":[` + ok + `]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"inputArtifacts":[` + strings.Replace(artifact, `"ide"`, `"web"`, 1) + `]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"inputArtifacts":[{"relativePath":"a","fileName":"a","origin":"ide"}]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"inputArtifacts":[` + strings.Replace(artifact, `"origin"`, `"sha256":"x","origin"`, 1) + `]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"clipboardImages":[` + strings.Replace(image, "png", "bmp", 1) + `]`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","ragScope":{"conditions":[{"key":"repo","operator":"=~","values":["a"]}]}`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","ragScope":{"conditions":[{"key":"r;","operator":"==","values":["a"]}]}`), false},
		{"post", "/v1/agent/execute", execute, turn(`"instruction":"x","ragScope":{"conditions":[{"key":"r","operator":"==","values":[]}]}`), false},
		{"post", "/v1/agent/execute", execute, results + `]}`, false},
		{"post", "/v1/agent/execute", execute, results + ok + `],"stream":false}`, false},
		{"post", "/v1/agent/execute", execute, results + `{"toolCallId":"c","executionMs":1}]}`, false},
		{"post", "/v1/agent/execute", execute, results + `{"toolCallId":"c","executionMs":1,"resultJson":"{}","errorMessage":"x"}]}`, false},
		{"post", "/v1/agent/execute", execute, results + `{"toolCallId":"c","executionMs":-1,"resultJson":"{}"}]}`, false},
		{"post", "/v1/agent/execute", execute, results + `{"toolCallId":"c","resultJson":"{}"}]}`, false},

		{"post", "/v1/sessions", session, `{}`, true},
		{"post", "/v1/sessions", session, `{"sessionId":"s1","mode":"general","systemPrompt":"x","tools":[{"type":"function"}],"agentContextId":"a","conversationContextId":"c","concurrency":"reject"}`, true},
		{"post", "/v1/sessions", session, `{"sessionId":""}`, false},
		{"post", "/v1/sessions", session, `{"tools":"x"}`, false},
		{"post", "/v1/sessions", session, `{"concurrency":"queue"}`, true},
		{"post", "/v1/sessions", session, `{"concurrency":"parallel"}`, false},
		{"post", "/v1/sessions", session, `{"instruction":"x"}`, false},
		{"put", "/v1/sessions/{sessionId}/mode", mode, `{"mode":"general","reason":"r"}`, true},
		{"put", "/v1/sessions/{sessionId}/mode", mode, `{"mode":"general"}`, false},
		{"put", "/v1/sessions/{sessionId}/mode", mode, `{"mode":"general","reason":""}`, false},
		{"put", "/v1/sessions/{sessionId}/tools", tools, `{"tools":[]}`, true},
		{"put", "/v1/sessions/{sessionId}/tools", tools, `{}`, false},
		{"put", "/v1/sessions/{sessionId}/tools", tools, `{"tools":{}}`, false},
	} {
		published := publishedDocument(t).check([]byte(tt.body), "paths", tt.path, tt.method, "requestBody", "content", "application/json", "schema")
		decoded := tt.decode([]byte(tt.body))
		if (published == nil) != tt.ok || (decoded == nil) != tt.ok {
			t.Errorf("%s %s: want ok %v\nschema: %v\ndecoder: %v", tt.path, tt.body, tt.ok, published, decoded)
		}
	}
}

// TestPages_LoadNothing holds row S-28 of docs/security.md.
func TestPages_LoadNothing(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/docs"} {
		a := r.do(t, "GET", path, "")
		a.wantStatus(t, 200)
		page := a.Body.String()
		if got := a.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
			t.Errorf("%s: got Content-Type %q", path, got)
		}
		if m := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|\son\w+=|src=|style="|@import|url\(`).FindString(page); m != "" {
			t.Errorf("%s holds %q", path, m)
		}
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
		hash := sha256.Sum256([]byte(style[1]))
		if policy := a.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'") ||
			!strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy %q does not fit the style sheet", path, policy)
		}
	}
}

func TestDocs_ListsEveryRouteAndSchema(t *testing.T) {
	page := newRig(t).do(t, "GET", "/docs", "").Body.String()
	for _, rt := range routes() {
		if !strings.Contains(page, `<h2 id="`+rt.id+`">`) || !strings.Contains(page, html.EscapeString(rt.summary)) {
			t.Errorf("route %s is not on the page", rt.id)
		}
	}
	for _, anchor := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+anchor[1]+`"`) {
			t.Errorf("the page links to #%s, which is not there", anchor[1])
		}
	}
}
