package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aptixhq/aptix/internal/agent"
)

// published compiles schemas of the OpenAPI document as it is served.
type published struct {
	document map[string]any
	paths    []pathPattern // literal ones first
	mu       sync.Mutex    // guards compiler
	compiler *jsonschema.Compiler
}

// pathPattern is a path of the document and which URL paths fall under it.
type pathPattern struct {
	template string
	pattern  *regexp.Regexp
}

var wildcards = regexp.MustCompile(`\\\{\w+\\\}`)

var contractDocument = sync.OnceValues(func() (*published, error) {
	raw, err := OpenAPI()
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	p := &published{document: doc.(map[string]any), compiler: c}
	for t := range p.document["paths"].(map[string]any) {
		p.paths = append(p.paths, pathPattern{t, regexp.MustCompile("^" + wildcards.ReplaceAllString(regexp.QuoteMeta(t), `[^/]+`) + "$")})
	}
	slices.SortFunc(p.paths, func(a, b pathPattern) int { return strings.Count(a.template, "{") - strings.Count(b.template, "{") })
	return p, nil
})

func publishedDocument(t *testing.T) *published {
	t.Helper()
	p, err := contractDocument()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// check validates a JSON text against the schema at a path of the document.
func (p *published) check(text []byte, path ...string) error {
	for i, token := range path {
		path[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	p.mu.Lock()
	schema, err := p.compiler.Compile("openapi.json#/" + strings.Join(path, "/"))
	p.mu.Unlock()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// find returns the path of the document that a URL path falls under. ok is false
// when the document has none with this method.
func (p *published) find(method, path string) (template string, responses map[string]any, ok bool) {
	for _, t := range p.paths {
		if !t.pattern.MatchString(path) {
			continue
		}
		op, ok := p.document["paths"].(map[string]any)[t.template].(map[string]any)[strings.ToLower(method)].(map[string]any)
		if !ok {
			continue
		}
		return t.template, op["responses"].(map[string]any), true
	}
	return "", nil, false
}

// faultType is the media type of the faults on a path.
func faultType(path string) string {
	if speaksOpenAI(path) {
		return "application/json"
	}
	return problemType
}

// conform holds an answer against the published document: its status, its media type
// and its body (reliability goal Z-6). Every answer in this package's tests goes
// through it.
func conform(t *testing.T, method, path string, a *httptest.ResponseRecorder) {
	t.Helper()
	p := publishedDocument(t)
	media, _, _ := strings.Cut(a.Header().Get("Content-Type"), ";")
	template, responses, ok := p.find(method, path)
	if !ok {
		if want := faultType(path); media != want {
			t.Errorf("%s %s is not in the document and is answered with %q", method, path, media)
		}
		return
	}
	where := fmt.Sprintf("%s %s → %d %s", method, template, a.Code, media)
	status := strconv.Itoa(a.Code)
	response, ok := responses[status].(map[string]any)
	if !ok {
		t.Errorf("%s: the document does not have this status; body %s", where, a.Body)
		return
	}
	content, _ := response["content"].(map[string]any)
	if a.Body.Len() == 0 && len(content) == 0 {
		return
	}
	if _, ok := content[media]; !ok {
		t.Errorf("%s: the document does not have this media type; body %s", where, a.Body)
		return
	}
	switch media {
	case "text/html", "text/plain":
	case "text/event-stream":
		if speaksOpenAI(path) {
			break // by OpenAI's schema; see internal/responsesapi
		}
		for _, e := range parseSSE(t, a.Body.String()) {
			if err := p.check([]byte(e.data), "components", "schemas", "Event"); err != nil {
				t.Errorf("%s: event %s: %v", where, e.data, err)
			}
		}
	default:
		if err := p.check(a.Body.Bytes(), "paths", template, strings.ToLower(method), "responses", status, "content", media, "schema"); err != nil {
			t.Errorf("%s: %v; body %s", where, err, a.Body)
		}
	}
	if media == problemType {
		var pr Problem
		if err := json.Unmarshal(a.Body.Bytes(), &pr); err == nil && !strings.Contains(response["description"].(string), string(pr.Code)) {
			t.Errorf("%s: the document does not have code %s here", where, pr.Code)
		}
	}
}

// sent is one event as it came over the wire.
type sent struct {
	event, id, data string
}

// parseSSE reads a stream as the HTML standard says, strictly: every event has all
// three fields.
func parseSSE(t *testing.T, text string) []sent {
	t.Helper()
	var out []sent
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if block == "" || strings.HasPrefix(block, ":") {
			continue
		}
		var e sent
		for line := range strings.SplitSeq(block, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "event":
				e.event = value
			case "id":
				e.id = value
			case "data":
				e.data += value
			default:
				t.Errorf("stream has the line %q", line)
			}
		}
		var d struct {
			Type     agent.EventType
			Sequence int64
		}
		if err := json.Unmarshal([]byte(e.data), &d); err != nil {
			t.Errorf("event %+v: %v", e, err)
		}
		if string(d.Type) != e.event || strconv.FormatInt(d.Sequence, 10) != e.id {
			t.Errorf("event %+v does not agree with its data", e)
		}
		out = append(out, e)
	}
	return out
}

func unmarshal(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
