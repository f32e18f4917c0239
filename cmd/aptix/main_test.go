package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/house"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/prove"
)

// databases are what the scripts get that want one in PostgreSQL.
var databases pgtest.Cluster

// TestMain lets the scripts run the test binary as aptix.
func TestMain(m *testing.M) {
	testscript.Main(unraced.around(databases.Around(m)), map[string]func(){
		"aptix":   main,
		"mcptest": func() { mcptest.Serve(mcptest.Kind(os.Args[1])) },
	})
}

// TestScript plays the scripts in testdata/script: what is typed, and what comes of it.
// Beside the commands of testscript they have
//
//	serve [FLAG...]      start a server and wait until it is ready; its address goes to
//	                     $APTIX_URL, what it says to server.log
//	shutdown             stop it with SIGINT; it must end with 0, and all that it sent
//	                     to its model must be what OpenAI's schema accepts
//	crash                stop it with SIGKILL
//	database VAR         make a database in PostgreSQL and set a variable to its address
//	reload               have it read its modes anew with SIGHUP, and wait until it says
//	                     how that went
//	remote FILE          start an MCP server behind HTTP that wants the key sesame; its
//	                     address takes the place of MCP_URL in the file
//	exits CODE CMD...    run a command that must end with this code
//	http METHOD PATH [FILE]  call the server: the status and then the body
//	get VAR NAME         set a variable to a member of the JSON body that http got, such
//	                     as toolCalls.0.toolCallId
//	put VAR FILE         write a variable to a file, exactly
//	unraced              from here on exec runs an aptix that is built without the race
//	                     detector; serve does not
//
// $REPOSITORY is the root of this one. A line "# proves: ID …" before the first file names rules.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			t, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("testscript no longer gives the test to Setup")
			}
			prove.Scenario(t, filepath.Join("testdata", "script", filepath.Base(t.Name())+".txtar"))
			root, err := house.Root()
			if err != nil {
				return err
			}
			env.Vars = append(env.Vars, "TZ=UTC", "REPOSITORY="+root, gorace())
			env.Values[serverKey{}] = &testServer{}
			env.Values[testKey{}] = t
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve":    cmdServe,
			"shutdown": func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).shutdown(ts) },
			"remote":   cmdRemote,
			"crash":    func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).crash() },
			"database": cmdDatabase,
			"reload":   func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).reload(ts) },
			"exits":    cmdExits,
			"until":    cmdUntil,
			"http":     cmdHTTP,
			"get":      cmdGet,
			"unraced": func(ts *testscript.TestScript, _ bool, _ []string) {
				folder := unraced.folder(ts.Value(testKey{}).(testing.TB))
				ts.Setenv("PATH", folder+string(os.PathListSeparator)+ts.Getenv("PATH"))
			},
			"put": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) != 2 {
					ts.Fatalf("usage: put VAR FILE")
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(ts.Getenv(args[0])), 0o600))
			},
		},
	})
}

type (
	serverKey struct{}
	testKey   struct{}
)

// gorace is what the race detector of the tests was told, for those that they start.
func gorace() string { return "GORACE=" + os.Getenv("GORACE") }

func cmdDatabase(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: database VAR")
	}
	ts.Setenv(args[0], databases.URL(ts.Value(testKey{}).(testing.TB)))
}

// cmdUntil runs a command again until its output fits.
func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARG...]")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		switch {
		case pattern.MatchString(ts.ReadFile("stdout")):
			return
		case time.Now().After(end):
			ts.Fatalf("this never came (%v): %s", err, args[0])
		}
	}
}

// testServer is the server of a script.
type testServer struct {
	cmd  *exec.Cmd
	done chan error // receives once, when the process has ended
	body []byte     // what http got last
}

func serverOf(ts *testscript.TestScript) *testServer { return ts.Value(serverKey{}).(*testServer) }

// within bounds each wait for a server; it is far more than any of them takes.
const within = 60 * time.Second

func cmdServe(ts *testscript.TestScript, _ bool, args []string) {
	s := serverOf(ts)
	if s.cmd != nil {
		ts.Fatalf("a server runs already")
	}
	cmd := exec.Command("aptix", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TZ=UTC", "TMPDIR=" + ts.Getenv("TMPDIR"), gorace()}
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	ts.Check(cmd.Start())
	s.cmd, s.done = cmd, make(chan error, 1)
	ts.Defer(s.crash)

	ready := make(chan string, 1)
	go func() { // ends with the process, whose stderr it reads
		defer func() { _ = log.Close() }()
		lines := bufio.NewScanner(stderr)
		address := ""
		for lines.Scan() {
			_, _ = fmt.Fprintln(log, lines.Text())
			if _, url, ok := strings.Cut(lines.Text(), "Aptix is ready at "); ok {
				address = url
			}
			if strings.HasPrefix(lines.Text(), "Ctrl-C ") { // the last line: now the log has all of them
				ready <- address
			}
		}
		s.done <- cmd.Wait()
		close(ready)
	}()
	select {
	case url := <-ready:
		if url == "" {
			ts.Fatalf("the server did not start:\n%s", ts.ReadFile("server.log"))
		}
		ts.Setenv("APTIX_URL", url)
	case <-time.After(within):
		ts.Fatalf("the server is not ready after %s", within)
	}
}

func (s *testServer) shutdown(ts *testscript.TestScript) {
	if s.cmd == nil {
		ts.Fatalf("no server runs")
	}
	checkWire(ts)
	ts.Check(s.cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-s.done:
		s.cmd = nil
		ts.Check(err)
	case <-time.After(within):
		ts.Fatalf("the server has not stopped after %s", within)
	}
}

func (s *testServer) crash() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.done
	s.cmd = nil
}

func (s *testServer) reload(ts *testscript.TestScript) {
	if s.cmd == nil {
		ts.Fatalf("no server runs")
	}
	told := func() int { return strings.Count(ts.ReadFile("server.log"), "reloaded") }
	before := told()
	ts.Check(s.cmd.Process.Signal(syscall.SIGHUP))
	for began := time.Now(); told() == before; time.Sleep(time.Millisecond) {
		if time.Since(began) > within {
			ts.Fatalf("the server says nothing of its modes:\n%s", ts.ReadFile("server.log"))
		}
	}
}

func cmdRemote(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: remote FILE")
	}
	tools := mcptest.Handler(mcptest.Good, false)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	}))
	ts.Defer(s.Close)
	file := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(file, []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "MCP_URL", s.URL)), 0o600))
}

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// checkWire judges every model request that the server says it sent, whatever model it
// asked: by OpenAI's schema, where it is at hand, and by OpenAI's own client.
func checkWire(ts *testscript.TestScript) {
	cfg, err := config.LoadClient("", func(name string) (string, bool) {
		if v := ts.Getenv(name); strings.HasSuffix(name, "_FILE") && v != "" {
			return ts.MkAbs(v), true
		}
		return ts.Getenv(name), true
	})
	ts.Check(err)
	c, err := client.New(client.Config{URL: cfg.URL, APIKey: cfg.APIKey.Reveal()})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	sessions, err := c.Sessions(ctx, client.Page{Limit: 200})
	ts.Check(err)
	for _, s := range sessions.Data {
		turns, err := c.Turns(ctx, s.SessionID, client.Page{Limit: 200})
		ts.Check(err)
		for _, turn := range turns.Data {
			calls, err := c.Requests(ctx, s.SessionID, turn.TurnID)
			ts.Check(err)
			for _, call := range calls {
				if err := wirecheck.Validate([]byte(call.Wire)); err != nil && !errors.Is(err, wirecheck.ErrNoSchema) {
					ts.Fatalf("model call %d of turn %s: %v", call.N, turn.TurnID, err)
				}
				ts.Check(wirecheck.Decode([]byte(call.Wire)))
			}
		}
	}
}

func cmdHTTP(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: http METHOD PATH [FILE]")
	}
	var body io.Reader
	if len(args) == 3 {
		body = strings.NewReader(os.Expand(ts.ReadFile(args[2]), ts.Getenv))
	}
	req, err := http.NewRequest(args[0], ts.Getenv("APTIX_URL")+args[1], body)
	ts.Check(err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	web := http.Client{Timeout: within}
	res, err := web.Do(req)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	s := serverOf(ts)
	s.body, err = io.ReadAll(res.Body)
	ts.Check(err)
	_, err = fmt.Fprintf(ts.Stdout(), "%s\n%s\n", res.Status, s.body)
	ts.Check(err)
}

func cmdGet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get VAR NAME")
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(serverOf(ts).body))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for name := range strings.SplitSeq(args[1], ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(w) {
				ts.Fatalf("there is no %s in %s", args[1], serverOf(ts).body)
			}
			v = w[n]
		}
	}
	if v == nil {
		ts.Fatalf("there is no %s in %s", args[1], serverOf(ts).body)
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}
