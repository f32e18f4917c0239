package contract

import (
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

// FuzzDecodeExecute holds the reader to its promises for any bytes: it never panics; a
// refusal says why; what it accepts can be sent again and is then the same request.
func FuzzDecodeExecute(f *testing.F) {
	prove.Rule(f, "AGN034-1-a")
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, storedBody,
		userTurn(`"instruction":"hi","stream":true,"solutionContextText":""`),
		`{"SessionId":"s1","TurnId":"t1","Instruction":" ","InputArtifacts":[{"RelativePath":"a\\b","FileName":"b","Contents":"","Origin":"ide"}]}`,
		scope(`{"key":"repo","operator":"==","values":["a",""]}`),
		continuation(`"instruction":null`),
		results(`{"toolCallId":"c1","executionMs":1,"errorMessage":"no"},{"toolCallId":"c2","executionMs":0,"resultJson":"{\"a\":\"\\ud800\"}"}`),
		continuation(`"mode":"x","stream":false,"Mode":1`),
		artifact(artifactAt("%252e%252e/CON")),
		userTurn(`"instruction":"\ud800"`), userTurn(`"instruction":1e400,"x":[[[{}]]]`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeExecute(body, Limits{})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		var again []byte
		if r.User != nil {
			again, err = json.Marshal(r.User)
		} else {
			again, err = json.Marshal(r.Continuation)
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := DecodeExecute(again, Limits{Body: int64(len(again))})
		if err != nil {
			t.Fatalf("%s was accepted, %s was not: %v", body, again, err)
		}
		switch {
		case r.User != nil && second.User != nil:
			if r.User.SHA256() != second.User.SHA256() {
				t.Errorf("%s is another turn than %s", again, body)
			}
		case r.Continuation != nil && second.Continuation != nil:
			if r.Continuation.SHA256() != second.Continuation.SHA256() {
				t.Errorf("%s is another continuation than %s", again, body)
			}
		default:
			t.Errorf("%s is of another scenario than %s", again, body)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e := (*agent.Error)(nil)
	if !errors.As(err, &e) || e.Kind != agent.KindInvalidRequest && e.Kind != agent.KindPayloadTooLarge {
		t.Fatalf("error = %v, want a fault of the contract", err)
	}
	if e.Kind == agent.KindInvalidRequest && len(e.Violations) == 0 {
		t.Error("a refusal without a violation")
	}
	for _, v := range e.Violations {
		if v.Rule == "" || v.Message == "" || v.Pointer != "" && v.Pointer[0] != '/' {
			t.Errorf("violation = %+v, want a pointer, a rule and a message", v)
		}
	}
}

// FuzzMatchResults holds the matcher against the rule in its shortest form: the ids of the
// results are those of the calls, in their order and nothing else (AGN-034 §5). Ids are
// the lines of a text.
// It holds row S-19 of docs/security.md.
func FuzzMatchResults(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"c1", "c1"}, {"c1\nc2", "c1\nc2"}, {"c1\nc2", "c2\nc1"}, {"c1\nc2", "c1"}, {"c1", "c1\nc1"}, {"c1", "c1\nc9"},
		{"c1\nc1", "c1\nc1"}, {"K", "\u212a"}, {"s", "\u017f"}, {"c1", "c1\x00"}, {"c1", " c1"}, {"\u00e9", "e\u0301"}, {"", "c1"}, {"c1", ""},
	} {
		f.Add(seed[0], seed[1], "said", true)
	}
	f.Fuzz(func(t *testing.T, asked, came, text string, failed bool) {
		var calls []agent.ToolCall
		unique := map[string]bool{}
		for id := range strings.SplitSeq(asked, "\n") {
			if unique[id] {
				return // no turn hands out an id twice
			}
			unique[id] = true
			calls = append(calls, agent.ToolCall{ID: agent.CallID(id), Name: "n" + id})
		}
		var c ToolContinuation
		for id := range strings.SplitSeq(came, "\n") {
			r := ToolResult{ToolCallID: agent.CallID(id), ExecutionMs: 1, ResultJSON: &text}
			if failed {
				r.ResultJSON, r.ErrorMessage = nil, &text
			}
			c.ToolResults = append(c.ToolResults, r)
		}
		results, err := MatchResults(calls, c)
		if (err == nil) != (asked == came) {
			t.Fatalf("calls %q, results %q: error %v", asked, came, err)
		}
		if err != nil {
			if f := agent.FaultOf(err); f.Kind != agent.KindToolResultsMismatch || len(f.Violations) == 0 || results != nil {
				t.Fatalf("refused with %+v and %d results", f, len(results))
			}
			return
		}
		for i, r := range results {
			if r.CallID != calls[i].ID || r.Name != calls[i].Name || r.By != agent.ByClient || r.Result+r.Err != text {
				t.Errorf("result %d is %+v, of the call %+v", i, r, calls[i])
			}
		}
	})
}

// FuzzPath holds the reader of paths against a second judgement: what it accepts stays
// below a root wherever it is joined, decoded or not, with either kind of slash, and shows
// what it is.
// It holds row S-17 of docs/security.md.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"a.go", "src/a.go", `src\a.go`, "/etc/passwd", "../a", "a/../b", "%2e%2e/a", "%252e%252e%252fa", "C:a", `\\server\share`, `\\?\C:\a`,
		"a\x00b", "NUL", "aux.c", "com\u00b9", strings.Repeat("a/", 2049), "a\u202eb", "a\u200bb", "e\u0301", "\u00e9", "%c0%ae%c0%ae/a", "file:///a",
		".. /a", "...", "100%.txt", "%", "a%2", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		body := artifact(artifactAt(path))
		r, err := DecodeExecute([]byte(body), Limits{})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		got := r.User.InputArtifacts[0].RelativePath
		if len(got) > 4096 || got == "" || !utf8.ValidString(got) {
			t.Fatalf("accepted %q", got)
		}
		for range 4 {
			for _, spelling := range []string{got, strings.ReplaceAll(got, `\`, "/")} {
				if !filepath.IsLocal(spelling) {
					t.Fatalf("accepted %q, which reads as %q and leaves the root", path, spelling)
				}
				for part := range strings.FieldsFuncSeq(spelling, func(r rune) bool { return r == '/' || r == '\\' }) {
					if part == ".." || len(part) > 1 && part[1] == ':' && spelling[:2] == part[:2] && isLetter(part[0]) {
						t.Fatalf("accepted %q, which holds %q", path, part)
					}
				}
				if i := strings.IndexFunc(spelling, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }); i >= 0 {
					t.Fatalf("accepted %q, which hides %q", path, spelling[i:])
				}
			}
			decoded, err := url.PathUnescape(got)
			if err != nil {
				return // a reader that decodes it gets an error
			}
			got = decoded
		}
	})
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
