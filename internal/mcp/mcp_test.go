package mcp_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/tool"
)

func TestCall_OverEveryTransportAndGeneration(t *testing.T) {
	for way, config := range ways(t) {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, config("test"))
			for _, tt := range []struct{ name, arguments, want string }{
				{"test__echo", `{"text":"a\n[INSTRUCTION]\nb"}`, `{"content":[{"type":"text","text":"a\n[INSTRUCTION]\nb"}]}`},
				{"test__add", `{"a":1.5,"b":2}`, `{"structuredContent":{"sum":3.5}}`},
			} {
				if got := r.says(tt.name, tt.arguments); got != tt.want {
					t.Errorf("%s gave %s, want %s", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestCall_ImagesAreKept_TheRestIsNamed(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	got, err := r.call("test__image", "")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"content":[{"type":"text","text":"A dot:"},` +
		`{"type":"image","mimeType":"image/png","bytes":70,"note":"image 1 of this result"},` +
		`{"type":"audio","mimeType":"audio/wav","bytes":4,"note":"left out: sounds are not shown"},` +
		`{"type":"resource","text":"dot","uri":"file:///dot.txt","mimeType":"text/plain"},` +
		`{"type":"resource_link","uri":"file:///dot.png","name":"dot.png"}]}`
	if d := cmp.Diff(want, got.Text); d != "" {
		t.Errorf("text (-want +got)\n%s", d)
	}
	if len(got.Images) != 1 || got.Images[0].MimeType != "image/png" || !strings.HasPrefix(got.Images[0].DataBase64, "iVBORw0KGgo") {
		t.Errorf("images: %+v", got.Images)
	}
}

func TestCall_Refusals(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	for _, tt := range []struct{ what, name, arguments, want string }{
		{"the tool says no", "test__fail", "", "test__fail: it did not work"},
		{"arguments that do not fit reach no server", "test__add", `{"a":"x"}`, "test__add: the arguments do not fit the tool: "},
		{"no JSON", "test__add", `{`, "the arguments are not valid JSON"},
	} {
		if _, err := r.call(tt.name, tt.arguments); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.what, err, tt.want)
		}
	}
}

func TestCall_ADeadServerLeavesTheOutcomeUnknown_AndIsStartedAgain(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	_, err := r.call("test__crash", "")
	if unknown := (*tool.UnknownOutcome)(nil); !errors.As(err, &unknown) {
		t.Fatalf("a call in which the server died: %v, want an unknown outcome", err)
	}
	if got := r.says("test__echo", `{"text":"back"}`); !strings.Contains(got, "back") {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(r.log.String(), "crashing as told") {
		t.Errorf("the log does not have what the server wrote to stderr:\n%s", r.log)
	}
}

func TestCall_AServerThatKeepsDyingIsLeftAlone(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	for range 3 {
		if _, err := r.call("test__crash", ""); err == nil {
			t.Fatal("no error")
		}
		// The connection is lost in a moment, if not yet.
		eventually(t, "the loss", func() bool {
			_, err := r.callWithin(time.Second, "test__echo", `{"text":"x"}`)
			return err == nil || strings.Contains(err.Error(), "is left alone for")
		})
	}
	lock := mcptest.Approve(t, mcptest.Command(t, "test", mcptest.Good))
	c := mcptest.Command(t, "test", mcptest.Good)
	c.Command = filepath.Join(t.TempDir(), "missing")
	r = newRigWith(t, lock, c)
	for range 2 {
		if _, err := r.call("test__echo", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), "could not be started") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := r.call("test__echo", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), "is left alone for") {
		t.Errorf("after two failed starts: %v", err)
	}
}

func TestCall_ADeadlineLeavesTheOutcomeUnknown(t *testing.T) {
	for way, config := range ways(t) {
		t.Run(way, func(t *testing.T) {
			c := config("test")
			c.Timeout = 200 * time.Millisecond
			r := newRig(t, c)
			eventually(t, "a start in time", func() bool { // a busy machine may need several
				_, err := r.call("test__echo", `{"text":"x"}`)
				return err == nil
			})
			_, err := r.call("test__slow", `{"n":1500}`)
			if unknown := (*tool.UnknownOutcome)(nil); !errors.As(err, &unknown) {
				t.Fatalf("got %v, want an unknown outcome", err)
			}
		})
	}
}

// A server with sessions that was started anew knows none of them: nothing was done, and
// the call is sent once more.
func TestCall_AfterARemoteServerWasStartedAnew(t *testing.T) {
	for what, recheck := range map[string]time.Duration{"the call finds out": 0, "the look at the list finds out": 1} {
		t.Run(what, func(t *testing.T) {
			remote := mcptest.Handler(mcptest.Good, false)
			s := httptest.NewServer(remote)
			t.Cleanup(s.Close)
			r := newRig(t, mcp.ServerConfig{Name: "test", URL: s.URL, Recheck: recheck})
			r.says("test__echo", `{"text":"before"}`)
			remote.Restart()
			if got := r.says("test__echo", `{"text":"after"}`); !strings.Contains(got, "after") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestEnvironment_OnlyWhatIsNamed holds row S-29 of docs/security.md.
func TestEnvironment_OnlyWhatIsNamed(t *testing.T) {
	t.Setenv("APTIX_TEST_SECRET", "x")
	t.Setenv("APTIX_TEST_ALLOWED", "y")
	c := mcptest.Command(t, "test", mcptest.Good)
	c.Env = []string{"APTIX_TEST_ALLOWED", "APTIX_TEST_UNSET"}
	got := newRig(t, c).says("test__environment", "")
	if !strings.Contains(got, "APTIX_TEST_ALLOWED") || strings.Contains(got, "APTIX_TEST_SECRET") {
		t.Errorf("the server sees %s", got)
	}
	for _, name := range strings.Fields(regexp.MustCompile(`"text":"([^"]*)"`).FindStringSubmatch(got)[1]) {
		switch name {
		case "APTIX_TEST_ALLOWED", "PATH", "HOME", "TMPDIR":
		default:
			t.Errorf("the server sees %s", name)
		}
	}
}

func TestClose_NoChildIsLeft(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	t.Setenv(mcptest.Ledger, ledger)
	c := mcptest.Command(t, "test", mcptest.Good)
	c.Env = []string{mcptest.Ledger}
	r := newRig(t, c)
	r.says("test__append", `{"text":"x"}`)
	line, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(line))
	if len(fields) != 3 || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(fields[1]) {
		t.Fatalf("ledger: %q, want the process, the key of the call and the text", line)
	}
	if !runs(fields[0]) {
		t.Fatalf("process %s is gone while it is used", fields[0])
	}
	r.servers.Close()
	if runs(fields[0]) {
		t.Errorf("process %s is left", fields[0])
	}
	if _, err := r.call("test__append", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), "is being stopped") {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestNew_StartsNothing(t *testing.T) {
	c := mcptest.Command(t, "test", mcptest.Good)
	lock := mcptest.Approve(t, c)
	c.Command = "/does/not/exist"
	r := newRigWith(t, lock, c)
	if n := len(r.servers.Tools()); n != 13 {
		t.Errorf("%d tools are offered while the server is down, want 13", n)
	}
}

func TestUse_AllowAndDeny(t *testing.T) {
	c := mcptest.Command(t, "test", mcptest.Good)
	lock := mcptest.Approve(t, c)
	c.Allow, c.Deny, c.Idempotent = []string{"e*", "add"}, []string{"environment"}, []string{"add"}
	r := newRigWith(t, lock, c)
	var got []string
	for _, t := range r.servers.Tools() {
		d := t.Definition()
		if d.Idempotent {
			d.Name += " (idempotent)"
		}
		got = append(got, d.Name)
	}
	if d := cmp.Diff([]string{"test__add (idempotent)", "test__echo"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestProblems(t *testing.T) {
	ok := func(name string) mcp.ServerConfig { return mcp.ServerConfig{Name: name, Command: "x"} }
	for _, tt := range []struct {
		what    string
		servers []mcp.ServerConfig
		want    []string
	}{
		{"all is well", []mcp.ServerConfig{ok("a"), ok("b-c"), {Name: "d", URL: "http://127.0.0.1:9/mcp"}, {Name: "e", URL: "https://example.com/mcp"}}, nil},
		{"the same name twice", []mcp.ServerConfig{ok("a"), ok("a")}, []string{"servers[1].name"}},
		{"names that read alike", []mcp.ServerConfig{ok("a-b"), ok("a_b")}, []string{"servers[1].name"}},
		{"a separator in the name", []mcp.ServerConfig{ok("a__b")}, []string{"servers[0].name"}},
		{"capitals", []mcp.ServerConfig{ok("GitHub")}, []string{"servers[0].name"}},
		{"the server's own", []mcp.ServerConfig{ok("agent")}, []string{"servers[0].name"}},
		{"neither", []mcp.ServerConfig{{Name: "a"}}, []string{"servers[0].command"}},
		{"both", []mcp.ServerConfig{{Name: "a", Command: "x", URL: "https://example.com"}}, []string{"servers[0].url"}},
		{"in the clear", []mcp.ServerConfig{{Name: "a", URL: "http://example.com/mcp"}}, []string{"servers[0].url"}},
		{"a password in the address", []mcp.ServerConfig{{Name: "a", URL: "https://u:p@example.com/mcp"}}, []string{"servers[0].url"}},
		{"no pattern", []mcp.ServerConfig{{Name: "a", Command: "x", Allow: []string{"["}}}, []string{"servers[0].tools.allow"}},
		{"negative", []mcp.ServerConfig{{Name: "a", Command: "x", Timeout: -1}}, []string{"servers[0].timeout"}},
	} {
		var got []string
		for _, p := range mcp.Problems(tt.servers) {
			where, _, _ := strings.Cut(p, ":")
			got = append(got, where)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", tt.what, d)
		}
	}
}
