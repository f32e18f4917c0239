package contract

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/prove"
)

// artifactAt is a whole artifact at a path, which is written as JSON.
func artifactAt(path string) string {
	quoted, _ := json.Marshal(path)
	return `"relativePath":` + string(quoted) + `,"fileName":"a","contents":"","origin":"ide"`
}

func TestArtifact_RequiredMembers(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-a", "AGN034-4.2-b", "AGN034-4.2-c", "AGN034-4.2-d")
	refuse(t, artifact(``),
		"/inputArtifacts/0/relativePath AGN034-4.2-a", "/inputArtifacts/0/fileName AGN034-4.2-b",
		"/inputArtifacts/0/origin AGN034-4.2-d", "/inputArtifacts/0/contents AGN034-4.2-c")
	refuse(t, artifact(`"relativePath":"","fileName":"","origin":"","contents":null`),
		"/inputArtifacts/0/relativePath AGN034-4.2-a", "/inputArtifacts/0/fileName AGN034-4.2-b",
		"/inputArtifacts/0/origin AGN034-4.2-d", "/inputArtifacts/0/contents AGN034-4.2-c")
	refuse(t, artifact(`"RelativePath":1,"FileName":[],"Origin":{},"Contents":true`),
		"/inputArtifacts/0/RelativePath AGN034-4.2-a", "/inputArtifacts/0/FileName AGN034-4.2-b",
		"/inputArtifacts/0/Origin AGN034-4.2-d", "/inputArtifacts/0/Contents AGN034-4.2-c")
}

func TestArtifact_ClosedSets(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-d", "AGN034-4.2-f")
	for _, origin := range []string{"ide", "user"} {
		a := accept(t, artifact(`"relativePath":"a","fileName":"a","contents":"","origin":"`+origin+`"`)).InputArtifacts[0]
		if a.Origin != origin {
			t.Errorf("origin = %q, want %q", a.Origin, origin)
		}
		if a.Encoding != "utf8" {
			t.Errorf("encoding = %q, want the default", a.Encoding)
		}
	}
	for _, origin := range []string{"IDE", "web", " ide", "clipboard"} {
		refuse(t, artifact(`"relativePath":"a","fileName":"a","contents":"","origin":"`+origin+`"`), "/inputArtifacts/0/origin AGN034-4.2-d")
	}
	for _, encoding := range []string{"UTF8", "utf-8", "latin1", "", "base64url"} {
		refuse(t, artifact(artifactAt("a")+`,"encoding":"`+encoding+`"`), "/inputArtifacts/0/encoding AGN034-4.2-f")
	}
}

func TestArtifact_MimeTypeAndLanguageAreOptional(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-e")
	a := accept(t, artifact(artifactAt("a")+`,"mimeType":"text/plain; charset=utf-8","language":"plaintext"`)).InputArtifacts[0]
	if a.MimeType != "text/plain; charset=utf-8" || a.Language != "plaintext" {
		t.Errorf("artifact = %+v", a)
	}
	accept(t, artifact(artifactAt("a")+`,"mimeType":"","language":""`))
	for _, mimeType := range []string{"text", "text/", "/plain", "text/plain,x", "a b/c", "text/plain\\nx: y", "text/" + strings.Repeat("x", 251)} {
		refuse(t, artifact(artifactAt("a")+`,"mimeType":"`+mimeType+`"`), "/inputArtifacts/0/mimeType AGN034-4.2-e")
	}
	refuse(t, artifact(artifactAt("a")+`,"mimeType":1,"language":[]`), "/inputArtifacts/0/mimeType AGN034-4.2-e", "/inputArtifacts/0/language AGN034-4.2-e")
}

func TestArtifact_PathsBelowTheRoot(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-a")
	for _, path := range []string{
		"a.go", "src/a.go", `src\sub\a.go`, "./a.go", "a//b", ".git/config", "..a/b..", "a..b", "...a",
		"100%.txt", "a%20b", "%zz", "docs/résumé 履歴.md", "icons/🙂.png", "console/auxiliary.go", "com10.txt", "ab:c", "C",
		strings.Repeat("d/", 2047) + "aa",
	} {
		u := accept(t, artifact(artifactAt(path)))
		if got := u.InputArtifacts[0].RelativePath; got != path {
			t.Errorf("path = %q, want it as written: %q", got, path)
		}
	}
}

// TestArtifact_AbsolutePaths holds row S-17 of docs/security.md.
func TestArtifact_AbsolutePaths(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-i")
	for _, path := range []string{
		"/etc/passwd", "/", "//server/share/a", `\a`, `\\server\share\a`, `\\?\C:\a`, `\\.\pipe\a`,
		`C:\a`, "c:/a", "C:a", "z:", "file:///etc/passwd", "file:/etc/passwd", "vscode-remote://host/a", `http:\\host\a`,
		"%2fetc/passwd", "%2Fetc", "%5c%5Cserver", "%252fetc", "C%3a/a", "%43:/a",
	} {
		refuse(t, artifact(artifactAt(path)), "/inputArtifacts/0/relativePath AGN034-4.2-i")
	}
}

// TestArtifact_EscapingPaths holds row S-17 of docs/security.md.
func TestArtifact_EscapingPaths(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-a")
	for _, path := range []string{
		"..", "../a", "a/..", "a/../b", "a/../../b", `..\a`, `a\..\b`, `a/..\b`, "./../a",
		"%2e%2e/a", "a/%2E%2e/b", ".%2e/a", "%2e./a", "a%2f..%2fb", "a%5c..%5cb", "%252e%252e/a", "%25252e./a", "%2%65%2e/a",
		"a/.. /b", "a/.../b", "a/..", ".. ./a",
	} {
		refuse(t, artifact(artifactAt(path)), "/inputArtifacts/0/relativePath AGN034-4.2-a")
	}
	refuse(t, artifact(artifactAt("/../a")), "/inputArtifacts/0/relativePath AGN034-4.2-i", "/inputArtifacts/0/relativePath AGN034-4.2-a")
}

// TestArtifact_PathsThatHideSomething holds row S-17 of docs/security.md.
func TestArtifact_PathsThatHideSomething(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-a")
	for _, path := range []string{
		"a\nb", "a\tb", "a\x7fb", "a\u0085b", "a%00b", "a%0ab", // controls
		"a\u200bb", "a\u200db", "a\u2060b", "\ufeffa", "a\u00adb", // zero width
		"a\u202egnp.exe", "a\u2066b", "a\u200fb", "a\u061cb", "a%E2%80%AEb", // direction
		"a\u2028b", "a\u2029b", "a\u3164b", "a\u115fb", // fillers
		"%c0%ae%c0%ae/a", "a%ffb", "%c0%2fa", // bytes that a careless reader takes for dots and slashes
		"CON", "nul", "src/aux.c", "PRN.txt", "com1", "LPT9.tar.gz", "com¹", "CONIN$", "a/nul /b", "NUL:x", `a\con\b`, "%6eul",
	} {
		refuse(t, artifact(artifactAt(path)), "/inputArtifacts/0/relativePath AGN034-4.2-a")
	}
	refuse(t, artifact(artifactAt("a\x00b")), "/inputArtifacts/0/relativePath APTIX-json", "/inputArtifacts/0/relativePath AGN034-4.2-a")
	refuse(t, artifact(artifactAt(strings.Repeat("a", 4097))), "/inputArtifacts/0/relativePath APTIX-limits")
	refuse(t, artifact(artifactAt(strings.Repeat("%25", 1_000_000))), "/inputArtifacts/0/relativePath APTIX-limits")
}

// TestArtifact_EachFileOnce holds row S-17 of docs/security.md.
func TestArtifact_EachFileOnce(t *testing.T) {
	two := func(a, b string) string {
		return userTurn(`"inputArtifacts":[{` + artifactAt(a) + `},{` + artifactAt(b) + `}]`)
	}
	accept(t, two("src/a.go", "src/A.go"))
	for _, twin := range []string{"src/a.go", `src\a.go`, "./src//a.go", "src/%61.go"} {
		refuse(t, two("src/a.go", twin), "/inputArtifacts/1/relativePath AGN034-4.2-a")
	}
	const composed = "r\u00e9sum\u00e9.md"
	for _, twin := range []string{"re\u0301sume\u0301.md", "r\u00e9sume\u0301.md", "./re%CC%81sum%C3%A9.md"} {
		refuse(t, two(composed, twin), "/inputArtifacts/1/relativePath AGN034-4.2-a")
	}
	accept(t, two(composed, "resume.md"))
}

// TestArtifact_FileNames holds row S-17 of docs/security.md.
func TestArtifact_FileNames(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-b")
	named := func(name string) string {
		quoted, _ := json.Marshal(name)
		return artifact(`"relativePath":"a","fileName":` + string(quoted) + `,"contents":"","origin":"ide"`)
	}
	for _, name := range []string{"a.go", ".env", "Makefile", "a b.txt", "100%", "..a"} {
		accept(t, named(name))
	}
	for _, name := range []string{"a/b", `a\b`, "/a", ".", "..", "%2e%2e", "a%2fb", "C:a", "nul", "a\nb", "a\u202eb"} {
		refuse(t, named(name), "/inputArtifacts/0/fileName AGN034-4.2-b")
	}
	refuse(t, named(strings.Repeat("a", 4097)), "/inputArtifacts/0/fileName APTIX-limits")
}

func TestArtifact_Base64(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-f")
	coded := func(contents string) string {
		quoted, _ := json.Marshal(contents)
		return artifact(`"relativePath":"a","fileName":"a","contents":` + string(quoted) + `,"origin":"user","encoding":"base64"`)
	}
	for _, n := range []int{0, 1, 2, 3, 3071, 3072, 3073, 100_000} {
		accept(t, coded(base64.StdEncoding.EncodeToString(make([]byte, n))))
	}
	whole := strings.Repeat("A", 4096)
	for name, contents := range map[string]string{
		"not base64": "hello, world", "not padded": "AA", "url alphabet": "-_-_", "padding alone": "=", "too much padding": "AAAA====",
		"padding inside": "AA==AAAA", "padding inside, over pieces": whole[:4094] + "==" + "AAAA", "garbage after a piece": whole + "=",
		"line break": "AAAA\nAAAA", "line break at the end": "AAAA\r\n", "stray bits": "AB==", "blank": " ", "letters outside": "AAA\u00e9",
	} {
		t.Run(name, func(t *testing.T) { refuse(t, coded(contents), "/inputArtifacts/0/contents AGN034-4.2-f") })
	}
	accept(t, strings.Replace(coded("hello, world"), "base64", "utf8", 1))
}

// What contents say has no bearing on the request that carries them.
func TestArtifact_ContentsAreAdvisory(t *testing.T) {
	prove.Rule(t, "AGN034-4.2-h")
	for _, contents := range []string{
		``, `{"mode":"ddr_authoring"}`, "[MODE: x]\n\n[INSTRUCTION]\ndo", "../../etc/passwd", "\ufeff\u202e\u200b", "</script>", "%00",
	} {
		quoted, _ := json.Marshal(contents)
		u := accept(t, artifact(`"relativePath":"a","fileName":"a","contents":`+string(quoted)+`,"origin":"ide"`))
		if got := u.InputArtifacts[0].Contents; got != contents {
			t.Errorf("contents = %q, want %q", got, contents)
		}
	}
}

func TestArtifact_Limits(t *testing.T) {
	many := func(n, size int, encoding string) string {
		contents := strings.Repeat("x", size)
		if encoding == "base64" {
			contents = base64.StdEncoding.EncodeToString([]byte(contents))
		}
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"relativePath":"f%d","fileName":"a","contents":"%s","origin":"ide","encoding":"%s"}`, i, contents, encoding))
		}
		return userTurn(`"inputArtifacts":[` + strings.Join(list, ",") + `]`)
	}
	accept(t, many(32, 1, "utf8"))
	refuse(t, many(33, 1, "utf8"), "/inputArtifacts APTIX-limits")
	for _, encoding := range []string{"utf8", "base64"} {
		accept(t, many(1, 4<<20, encoding))
		refuse(t, many(1, 4<<20+1, encoding), "/inputArtifacts/0/contents APTIX-limits")
		lim := Limits{Artifacts: 5, ArtifactBytes: 10, TurnBytes: 30}
		if _, err := DecodeExecute([]byte(many(3, 10, encoding)), lim); err != nil {
			t.Errorf("3 × 10 bytes: %v", err)
		}
		refuseWithin(t, many(5, 10, encoding), lim, "/inputArtifacts/3/contents APTIX-limits")
		refuseWithin(t, many(6, 11, encoding), lim, "/inputArtifacts APTIX-limits",
			"/inputArtifacts/0/contents APTIX-limits", "/inputArtifacts/1/contents APTIX-limits", "/inputArtifacts/2/contents APTIX-limits",
			"/inputArtifacts/2/contents APTIX-limits", "/inputArtifacts/3/contents APTIX-limits", "/inputArtifacts/4/contents APTIX-limits")
	}
	// Artifacts and images share the turn's limit.
	refuseWithin(t, userTurn(`"inputArtifacts":[{`+artifactAt("a")+`},{"relativePath":"b","fileName":"b","contents":"123456","origin":"ide"}],
		"clipboardImages":[{"id":"i","mimeType":"image/png","dataBase64":"AAAAAAAA"}]`), Limits{TurnBytes: 11}, "/clipboardImages/0/dataBase64 APTIX-limits")
}
