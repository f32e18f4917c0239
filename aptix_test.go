package aptix_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix"
	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// A program may have many servers one after the other, so none may leave anything behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open starts a server that is closed with the test.
func open(t *testing.T, c aptix.Config) *aptix.Server {
	t.Helper()
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := aptix.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, s) })
	return s
}

// closeNow closes a server without waiting for its turns.
func closeNow(t *testing.T, s *aptix.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// talk serves on an http.Server of the test and returns a client of it.
func talk(t *testing.T, s *aptix.Server, key string) *client.Client {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	way := &http.Transport{}
	t.Cleanup(way.CloseIdleConnections)
	c, err := client.New(client.Config{URL: web.URL, APIKey: key, Attempts: 1, HTTPClient: &http.Client{Transport: way}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type word struct {
	Word string `json:"word"`
}

// echo is a tool that says for whom it runs.
func echo(info aptix.ToolInfo) aptix.Tool {
	info.Name, info.Description = "say_again", "Says a word again."
	return aptix.NewTool(info, func(_ context.Context, call aptix.Call, in word) (string, error) {
		return fmt.Sprintf("%s, said %s/%s in %s/%s", in.Word, call.Org, call.User, call.Session, call.Turn), nil
	})
}

func TestTools_RunWhereTheirModeIs(t *testing.T) {
	c := talk(t, open(t, aptix.Config{Tools: []aptix.Tool{echo(aptix.ToolInfo{Modes: []string{"ddr_authoring"}})}}), "")
	for mode, want := range map[string]string{
		"ddr_authoring": "hello, said local/local in ddr_authoring/t1",
		"general":       "There is no tool `say_again` in this turn.",
	} {
		if _, err := c.CreateSession(t.Context(), client.NewSession{SessionID: mode, Mode: mode}); err != nil {
			t.Fatal(err)
		}
		a, err := c.Execute(t.Context(), client.UserTurn{SessionID: mode, TurnID: "t1", Instruction: `call say_again {"word": "hello"}`})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a.PrimaryOutputText, want) {
			t.Errorf("in %s: %s", mode, a.PrimaryOutputText)
		}
	}
}

func TestTools_ArgumentsThatDoNotFitDoNotGetIn(t *testing.T) {
	c := talk(t, open(t, aptix.Config{Tools: []aptix.Tool{echo(aptix.ToolInfo{Modes: []string{"general"}})}}), "")
	a, err := c.Execute(t.Context(), client.UserTurn{Instruction: `call say_again {"words": 3}`})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.PrimaryOutputText, "word") || strings.Contains(a.PrimaryOutputText, "said") {
		t.Errorf("got %s", a.PrimaryOutputText)
	}
}

func TestTools_MayAskTheUser(t *testing.T) {
	c := talk(t, open(t, aptix.Config{Tools: []aptix.Tool{echo(aptix.ToolInfo{Modes: []string{"general"}, Ask: true})}}), "")
	a, err := c.Execute(t.Context(), client.UserTurn{Instruction: `call say_again {"word": "hello"}`})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Approvals) != 1 || a.Approvals[0].Name != "say_again" {
		t.Errorf("the user is asked for %+v", a.Approvals)
	}
}

func TestNew_SaysWhatIsWrong(t *testing.T) {
	named := func(name string) aptix.Tool {
		return aptix.NewTool(aptix.ToolInfo{Name: name, Description: "d"}, func(context.Context, aptix.Call, word) (string, error) { return "", nil })
	}
	for name, tt := range map[string]struct {
		c    aptix.Config
		want []string
	}{
		"tools": {aptix.Config{Tools: []aptix.Tool{
			{}, aptix.NewTool[word](aptix.ToolInfo{Name: "nothing"}, nil),
			aptix.NewTool(aptix.ToolInfo{Name: "number"}, func(context.Context, aptix.Call, int) (string, error) { return "", nil }),
		}}, []string{`tool 1, "": make it with NewTool`, `tool 2, "nothing": it has no function`, `tool 3, "number"`}},
		"names":          {aptix.Config{Tools: []aptix.Tool{named("no name"), named("twice"), named("twice")}}, []string{`"no name": its name does not match`, `"twice": another tool has the same name`}},
		"a built-in one": {aptix.Config{Tools: []aptix.Tool{named("agent_list_modes")}}, []string{"another tool has the same name"}},
		"no such mode":   {aptix.Config{Tools: []aptix.Tool{echo(aptix.ToolInfo{Modes: []string{"nowhere"}})}}, []string{`there is no mode "nowhere" for say_again; the modes are: general`}},
		"modes":          {aptix.Config{Modes: os.DirFS(t.TempDir())}, []string{"there are no mode files"}},
		"model":          {aptix.Config{Model: aptix.Model{Name: "m"}, Hosts: []string{"https://x"}}, []string{"openai.apiKey", `hosts: "https://x" is no host name`}},
		"file":           {aptix.Config{File: "not-there.yaml"}, []string{"not-there.yaml"}},
		"database":       {aptix.Config{Database: "mysql://u:sesame-open@h/d"}, []string{"database: \"mysql\" is no kind of database"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.c.Data, tt.c.Log = t.TempDir(), slog.New(slog.DiscardHandler)
			s, err := aptix.New(t.Context(), tt.c)
			if err == nil {
				closeNow(t, s)
				t.Fatal("it started")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "sesame-open") {
				t.Errorf("the password is in: %v", err)
			}
		})
	}
}

// What belongs to a server of its own, beside which the program may run, does not count.
func TestNew_ReadsOnlyWhatItIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("aptix.yaml", []byte("provider: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APTIX_PROVIDER", "nonsense")
	s := open(t, aptix.Config{Data: "data"})
	if _, err := talk(t, s, "").Execute(t.Context(), client.UserTurn{Instruction: "hello"}); err != nil {
		t.Error(err)
	}
	_, err := aptix.New(t.Context(), aptix.Config{Data: "other", LookupEnv: os.LookupEnv})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("with the environment: %v", err)
	}
	if err := os.WriteFile("own.yaml", []byte("limits: {modelCalls: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = aptix.New(t.Context(), aptix.Config{Data: "other", File: "own.yaml"})
	if err == nil || !strings.Contains(err.Error(), "limits.modelCalls") {
		t.Errorf("with a file: %v", err)
	}
}

// TestHandler_IsGuarded asks as those do who must not get in.
func TestHandler_IsGuarded(t *testing.T) {
	s := open(t, aptix.Config{Hosts: []string{"shop.example"}})
	ask := func(change func(*http.Request)) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/agent/execute", strings.NewReader(`{"sessionId": "s", "turnId": "t", "instruction": "hello"}`))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		change(r)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	at := func(ip string) func(*http.Request) {
		return func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(ip), Port: 80})))
		}
	}
	for name, tt := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"a program on this machine":       {at("127.0.0.1"), 200},
		"the same over IPv6":              {at("::1"), 200},
		"a name of the program":           {func(r *http.Request) { r.Host = "shop.example" }, 200},
		"a name that was bent to us":      {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"a page of another origin":        {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"another machine":                 {at("192.0.2.7"), 403},
		"another machine, as a good name": {func(r *http.Request) { at("192.0.2.7")(r); r.Host = "shop.example" }, 403},
	} {
		if got := ask(tt.change); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
	made, err := talk(t, s, "").CreateKey(t.Context(), client.NewKey{Org: "acme", User: "ada", Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(func(*http.Request) {}); got != http.StatusUnauthorized {
		t.Errorf("without the key: got %d", got)
	}
	if got := ask(func(r *http.Request) { at("192.0.2.7")(r); r.Header.Set("Authorization", "Bearer "+made.Secret) }); got != 200 {
		t.Errorf("another machine with the key: got %d", got)
	}
}

func TestConsole_AsksForItsToken(t *testing.T) {
	s := open(t, aptix.Config{})
	for path, want := range map[string]string{"/": "/sign-in?next=%2F", "/?token=guessed": "", "/?token=" + string(s.ConsoleToken()): "/"} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s: %d to %q, want %q", path, w.Code, got, want)
		}
	}
}

func TestServe_IsForThisMachineWithoutKeys(t *testing.T) {
	s := open(t, aptix.Config{})
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), "refusing to listen") {
		t.Errorf("got %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: %v", err)
	}
}

func TestServe_OnASocketOfTheSystem(t *testing.T) {
	s := open(t, aptix.Config{})
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	way := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer way.CloseIdleConnections()
	c, err := client.New(client.Config{URL: "http://localhost", HTTPClient: &http.Client{Transport: way}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "hello"}); err != nil {
		t.Error(err)
	}
	closeNow(t, s)
	if err := <-served; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

// A turn that is under way when its program ends goes on in the next one, which has the same
// data; whoever waits for it is told to come again.
func TestClose_LeavesTurnsToTheNextStart(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	model := llmtest.NewFake(llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "After all."})
	t.Cleanup(model.Close)
	provider := httptest.NewServer(model)
	t.Cleanup(provider.Close)
	cfg := aptix.Config{Data: t.TempDir(), Model: aptix.Model{Name: "m", BaseURL: provider.URL + "/v1", APIKey: "sk-test"}}

	first := open(t, cfg)
	done := make(chan error, 1)
	c := talk(t, first, "")
	go func() {
		_, err := c.Execute(context.Background(), client.UserTurn{SessionID: "s", TurnID: "t", Instruction: "hello"})
		done <- err
	}()
	if err := model.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	closeNow(t, first)
	if err := <-done; err == nil {
		t.Error("the turn has an answer that nobody gave")
	}
	w := httptest.NewRecorder()
	first.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/modes", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a server that is closed answers %d", w.Code)
	}

	second := talk(t, open(t, cfg), "")
	var last client.Event
	for e, err := range second.Events(t.Context(), "s", "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Type != client.EventTurnCompleted || last.Response.PrimaryOutputText != "After all." {
		t.Errorf("the turn ended with %+v", last)
	}
}

func TestSecret_NeverShows(t *testing.T) {
	c := aptix.Config{Database: "postgres://u:sesame-open@h/d", Model: aptix.Model{APIKey: "sesame-open"}}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "config", c, "key", c.Model.APIKey)
	asJSON, err := json.Marshal(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{log.String(), string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, c), fmt.Sprintf(verb, c.Model.APIKey))
	}
	for _, text := range shown {
		if strings.Contains(text, "sesame") || strings.Contains(text, fmt.Sprintf("%x", "sesame")) {
			t.Errorf("shown: %s", text)
		}
	}
}
