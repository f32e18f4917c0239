package pipeline_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/prove"
)

var update = flag.Bool("update", false, "write what happened into the scenario files")

// TestTurns plays the conversations in testdata/turns. A scenario is a txtar
// archive: its comment says what it shows and which rules it proves, its files are
// played in order:
//
//	options           one per line: chain (the provider remembers), mcp (tools of two MCP
//	                  servers: local, a process, and remote, behind HTTP), consent (modes
//	                  change with the user's approval only), TOOL=POLICY (what the
//	                  configuration says of approvals), private=TOOL, untrusted=TOOL and
//	                  outgoing=TOOL (what must not come together)
//	modes/*.yaml      a catalogue instead of the built-in one
//	docs/*            files that are indexed for the caller's organisation
//	theirs/*          files that are indexed for another one
//	model.yaml        what the provider answers, call by call (llmtest.ParseScript)
//	session.json      POST /v1/sessions
//	N.request.json    POST /v1/agent/execute
//	N.mode.json       PUT …/mode
//	N.tools.json      PUT …/tools
//	N.cancel          POST …/cancel of the turn named in the file
//	N.decide.json     POST …/approvals/{approvalId}, with the turn and the approval; by bob
//	N.branch.json     POST …/branch; what follows happens in the new session
//	N.erase           DELETE of the session named in the file
//	restart           stop the server and start it on the same file
//
// There are two server tools beside the built-in ones, for modes that list them: deploy,
// which must not run twice, and look.
//
// And the rest is what must come of it, written by go test -update:
//
//	N.stream          the events of the delivery
//	N.answer.json     the answer or the problem
//	N.sent            per model call: kind, mode, attached tools, new input items
//	session           mode, history and turns at the end
//
// Beside that, each scenario is held to what is true of every turn: see verify. Those about
// exposure hold row S-20 of docs/security.md.
func TestTurns(t *testing.T) {
	files, err := filepath.Glob("testdata/turns/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			prove.Scenario(t, file)
			playScenario(t, file)
		})
	}
}

type scenario struct {
	*rig
	archive *txtar.Archive
	got     map[string]string
	session agent.SessionID
	sent    int // requests that the provider has seen before the current delivery
	// deliveries are the streams as they were followed, by turn.
	turns []agent.TurnID
}

func playScenario(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sc := &scenario{archive: txtar.Parse(data), got: map[string]string{}}
	var script []llmtest.Reply
	modes, docs, theirs := map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	var servers *mcp.Servers
	var opts scenarioOptions
	for _, f := range sc.archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "modes/"); ok {
			modes[name] = f.Data
		}
		if name, ok := strings.CutPrefix(f.Name, "docs/"); ok {
			docs[name] = f.Data
		}
		if name, ok := strings.CutPrefix(f.Name, "theirs/"); ok {
			theirs[name] = f.Data
		}
		switch f.Name {
		case "model.yaml":
			if script, err = llmtest.ParseScript(string(f.Data)); err != nil {
				t.Fatalf("model.yaml: %v", err)
			}
		case "options":
			opts.read(string(f.Data))
			if strings.Contains(string(f.Data), "mcp") {
				servers = mcpServers(t)
			}
		}
	}
	provider := llmtest.New(t, script...)
	sc.rig = newRig(t, func(r *rig) { r.provider, r.mcp, r.extra = provider, servers, opts.tools(t) }, opts.apply, withCatalog(modes),
		withDocuments(caller.Org, docs), withDocuments("umbrella", theirs))
	for _, f := range sc.archive.Files {
		sc.play(f.Name, f.Data)
	}
	sc.got["session"] = sc.describeSession()
	sc.verify()
	if left := provider.Left(); left > 0 {
		t.Errorf("%d scripted answers were never asked for", left)
	}
	sc.compare(file)
}

func (sc *scenario) play(name string, data []byte) {
	sc.t.Helper()
	ctx := sc.t.Context()
	n, what, _ := strings.Cut(name, ".")
	switch {
	case name == "restart":
		sc.restart()
	case name == "session.json":
		c, err := contract.DecodeCreateSession(data, contract.Limits{})
		if err == nil {
			var s agent.Session
			s, err = sc.sessions.Create(ctx, caller, c)
			sc.session = s.ID
		}
		if err != nil {
			sc.t.Fatalf("session.json: %v", err)
		}
	case what == "mode.json":
		m, err := contract.DecodeSetMode(data, contract.Limits{})
		if err == nil {
			_, err = sc.sessions.SetSessionMode(ctx, agent.ModeChange{Org: caller.Org, Session: sc.session, Mode: m.Mode, Reason: m.Reason, User: caller.User, Actor: agent.ActorUser})
		}
		if err != nil {
			sc.t.Fatalf("%s: %v", name, err)
		}
	case what == "tools.json":
		s, err := contract.DecodeSetTools(data, contract.Limits{})
		if err == nil {
			_, err = sc.sessions.SetTools(ctx, caller, sc.session, s.Tools)
		}
		if err != nil {
			sc.t.Fatalf("%s: %v", name, err)
		}
	case what == "decide.json":
		sc.decide(n, data)
	case what == "branch.json":
		sc.branch(n, data)
	case what == "erase":
		if err := sc.pipeline.Erase(ctx, caller, agent.SessionID(strings.TrimSpace(string(data)))); err != nil {
			sc.t.Fatalf("%s: %v", name, err)
		}
	case what == "cancel":
		key := agent.TurnKey{Org: caller.Org, Session: sc.session, Turn: agent.TurnID(strings.TrimSpace(string(data)))}
		if err := sc.pipeline.Cancel(ctx, key); err != nil {
			sc.t.Fatalf("%s: %v", name, err)
		}
	case what == "request.json":
		sc.execute(n, data)
	}
}

// execute sends one request and takes down its stream, its answer and what the
// provider received.
func (sc *scenario) execute(n string, body []byte) {
	sc.t.Helper()
	ctx, cancel := context.WithTimeout(sc.t.Context(), 30*time.Second)
	defer cancel()
	sc.sent = len(sc.provider.Requests())
	req, err := contract.DecodeExecute(body, contract.Limits{})
	if err != nil {
		sc.got[n+".answer.json"] = problem(err)
		return
	}
	var key agent.TurnKey
	var after int64
	var preview *pipeline.Preview
	if req.User != nil {
		if p, err := sc.pipeline.Preview(ctx, caller, *req.User); err == nil {
			preview = &p
		}
		key, after, err = sc.pipeline.Submit(ctx, caller, *req.User)
	} else {
		var stream bool
		key, after, stream, err = sc.pipeline.Continue(ctx, caller, *req.Continuation)
		if err == nil {
			turn, _ := sc.store.Turn(ctx, key)
			if want := strings.Contains(string(turn.Request), `"stream":true`); stream != want {
				sc.t.Errorf("%s: continued with stream %t, the turn was sent with %t", n, stream, want)
			}
		}
	}
	if err != nil {
		sc.got[n+".answer.json"] = problem(err)
		return
	}
	if key.Session != sc.session {
		sc.session, sc.turns = key.Session, nil
	}
	if !slices.Contains(sc.turns, key.Turn) {
		sc.turns = append(sc.turns, key.Turn)
	} else {
		preview = nil // the turn exists: nothing is sent anew for it
	}
	sc.follow(ctx, n, key, after, preview)
}

// follow takes down what comes of a request: the stream of its delivery, the answer and
// what the provider received.
func (sc *scenario) follow(ctx context.Context, n string, key agent.TurnKey, after int64, preview *pipeline.Preview) {
	sc.t.Helper()
	var stream strings.Builder
	next := after + 1
	for e, err := range sc.pipeline.Follow(ctx, key, after) {
		if err != nil {
			sc.t.Fatalf("%s: follow: %v", n, err)
		}
		if e.Sequence != next {
			sc.t.Errorf("%s: event %d follows %d", n, e.Sequence, next-1)
		}
		next = e.Sequence + 1
		stream.WriteString(describeEvent(e))
	}
	sc.got[n+".stream"] = stream.String()
	turn, err := sc.pipeline.Await(ctx, key)
	if err != nil {
		sc.t.Fatalf("%s: await: %v", n, err)
	}
	switch {
	case turn.Fault != nil:
		sc.got[n+".answer.json"] = problem(&agent.Error{Fault: *turn.Fault})
	case turn.Response != nil:
		sc.got[n+".answer.json"] = indent(turn.Response)
	}
	received := sc.provider.Requests()[sc.sent:]
	if sc.enters(key) {
		preview = nil // it cannot tell what the bootstrap tools will give
	}
	if preview != nil && (len(received) == 0 || preview.Wire != string(received[0])) {
		sc.t.Errorf("%s: preview differs from what the provider received\npreview:  %s\nreceived: %s", n, preview.Wire, received)
	}
	sc.got[n+".sent"] = sc.describeSent(key, received)
}

// describeSent summarises the model calls of a delivery and checks that what the
// server says it sent is what the provider received.
func (sc *scenario) describeSent(key agent.TurnKey, received [][]byte) string {
	calls, err := sc.pipeline.Requests(sc.t.Context(), key)
	if err != nil {
		sc.t.Fatalf("requests of %s: %v", key, err)
	}
	calls = calls[max(0, len(calls)-len(received)):]
	var b strings.Builder
	for i, body := range received {
		if calls[i].Wire != string(body) {
			sc.t.Errorf("model call %d: stored wire request differs from the received one\nstored:   %s\nreceived: %s", calls[i].N, calls[i].Wire, body)
		}
		checkCanonical(sc.t, []byte(calls[i].Canonical))
		b.WriteString(describeRequest(sc.t, calls[i].Canonical, body))
	}
	return b.String()
}

// compare holds what happened against the file, or writes it there with -update.
func (sc *scenario) compare(file string) {
	sc.t.Helper()
	if *update {
		sc.write(file)
		return
	}
	seen := map[string]bool{}
	for _, f := range sc.archive.Files {
		got, ok := sc.got[f.Name]
		if !ok {
			continue
		}
		seen[f.Name] = true
		if diff := cmp.Diff(got, string(f.Data)); diff != "" {
			sc.t.Errorf("%s: -got +want\n%s", f.Name, diff)
		}
	}
	for name, got := range sc.got {
		if !seen[name] {
			sc.t.Errorf("%s is not in the scenario (go test -update writes it):\n%s", name, got)
		}
	}
}

// generated are the files that a scenario's run writes for each of its requests.
var generated = []string{".decided.json", ".branched.json", ".sent", ".stream", ".answer.json"}

func (sc *scenario) write(file string) {
	out := &txtar.Archive{Comment: sc.archive.Comment}
	flush := func(name string) {
		for _, suffix := range generated {
			if got, ok := sc.got[name+suffix]; ok {
				out.Files = append(out.Files, txtar.File{Name: name + suffix, Data: []byte(got)})
			}
		}
	}
	for _, f := range sc.archive.Files {
		if _, made := sc.got[f.Name]; made {
			continue
		}
		if slices.ContainsFunc(generated, func(suffix string) bool { return strings.HasSuffix(f.Name, suffix) }) {
			continue
		}
		out.Files = append(out.Files, f)
		if n, what, _ := strings.Cut(f.Name, "."); what == "request.json" || what == "decide.json" || what == "branch.json" {
			flush(n)
		}
	}
	out.Files = append(out.Files, txtar.File{Name: "session", Data: []byte(sc.got["session"])})
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		sc.t.Fatal(err)
	}
}
