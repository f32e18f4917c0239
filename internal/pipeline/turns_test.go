package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
)

var update = flag.Bool("update", false, "write what happened into the scenario files")

// TestTurns plays the conversations in testdata/turns. A scenario is a txtar
// archive: its comment says what it shows and which rules it proves, its files are
// played in order:
//
//	options           one per line: chain (the provider remembers)
//	modes/*.yaml      a catalogue instead of the built-in one
//	model.yaml        what the provider answers, call by call (llmtest.ParseScript)
//	session.json      POST /v1/sessions
//	N.request.json    POST /v1/agent/execute
//	N.mode.json       PUT …/mode
//	N.tools.json      PUT …/tools
//	N.cancel          POST …/cancel of the turn named in the file
//	restart           stop the server and start it on the same file
//
// and the rest is what must come of it, written by go test -update:
//
//	N.stream          the events of the delivery
//	N.answer.json     the answer or the problem
//	N.sent            per model call: kind, mode, attached tools, new input items
//	session           mode, history and turns at the end
//
// Beside that, each scenario is held to what is true of every turn: see verify.
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
	modes := map[string][]byte{}
	chain := false
	for _, f := range sc.archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "modes/"); ok {
			modes[name] = f.Data
		}
		switch f.Name {
		case "model.yaml":
			if script, err = llmtest.ParseScript(string(f.Data)); err != nil {
				t.Fatalf("model.yaml: %v", err)
			}
		case "options":
			chain = strings.Contains(string(f.Data), "chain")
		}
	}
	provider := llmtest.New(t, script...)
	sc.rig = newRig(t, func(r *rig) { r.provider, r.chain = provider, chain }, withCatalog(modes))
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
		key, after, _, err = sc.pipeline.Continue(ctx, caller, *req.Continuation)
	}
	if err != nil {
		sc.got[n+".answer.json"] = problem(err)
		return
	}
	sc.session = key.Session
	if !slices.Contains(sc.turns, key.Turn) {
		sc.turns = append(sc.turns, key.Turn)
	} else {
		preview = nil // the turn exists: nothing is sent anew for it
	}
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

// verify holds the scenario to what is true of every turn (the invariants of the
// journal).
func (sc *scenario) verify() {
	sc.t.Helper()
	ctx := sc.t.Context()
	for _, id := range sc.turns {
		key := agent.TurnKey{Org: caller.Org, Session: sc.session, Turn: id}
		turn, err := sc.store.Turn(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		steps, err := sc.store.Steps(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		checkJournal(sc.t, key, turn, steps)
		var all []agent.Event
		for e, err := range sc.pipeline.Follow(ctx, key, 0) {
			if err != nil {
				sc.t.Fatal(err)
			}
			all = append(all, e)
		}
		for cut := range all { // resuming anywhere gives the rest, no gap, no repeat
			var rest []agent.Event
			for e, err := range sc.pipeline.Follow(ctx, key, int64(cut)) {
				if err != nil {
					sc.t.Fatal(err)
				}
				rest = append(rest, e)
			}
			if diff := cmp.Diff(rest, all[cut:]); diff != "" {
				sc.t.Errorf("turn %s followed after %d: -got +want\n%s", id, cut, diff)
			}
		}
	}
	if sc.session == "" {
		return
	}
	s, err := sc.store.Session(ctx, caller.Org, sc.session)
	if agent.KindOf(err) == agent.KindNotFound {
		return
	}
	history, _, err := sc.store.ModeHistory(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for i, c := range history {
		if i > 0 && c.Previous != history[i-1].Mode {
			sc.t.Errorf("history row %d begins in %s, the row before ended in %s", i+1, c.Previous, history[i-1].Mode)
		}
	}
	if n := len(history); n > 0 && history[n-1].Mode != s.Mode {
		sc.t.Errorf("session is in %s, its newest history row says %s", s.Mode, history[n-1].Mode)
	}
}

// checkJournal checks the invariants of one turn's journal.
func checkJournal(t *testing.T, key agent.TurnKey, turn agent.Turn, steps []agent.Step) {
	t.Helper()
	next := int64(1)
	outputs := map[agent.CallID]int{}
	var calls []agent.ToolCall
	var cost agent.Usage
	for i, s := range steps {
		if s.N != i+1 {
			t.Errorf("turn %s: step %d has number %d", key, i+1, s.N)
		}
		events := s.Events(key)
		if s.FirstEvent != next {
			t.Errorf("turn %s: step %d begins at event %d, want %d", key, s.N, s.FirstEvent, next)
		}
		next += int64(len(events))
		switch s.Kind {
		case agent.StepAnswered:
			cost = cost.Add(s.Answered.Usage)
			for _, raw := range s.Answered.Items {
				var item struct {
					Type, Name, Arguments string
					CallID                agent.CallID `json:"call_id"`
				}
				if err := json.Unmarshal(raw, &item); err != nil {
					t.Errorf("turn %s: stored item: %v", key, err)
				}
				if item.Type == "function_call" {
					calls = append(calls, agent.ToolCall{ID: item.CallID, Name: item.Name})
				}
			}
		case agent.StepToolFinished:
			outputs[s.ToolFinished.Result.CallID]++
		case agent.StepContinued:
			for _, r := range s.Continued.Results {
				outputs[r.CallID]++
			}
		case agent.StepSettled:
			for _, r := range s.Settled.Abandoned {
				outputs[r.CallID]++
			}
		}
	}
	var response struct{ Usage agent.Usage }
	if turn.State == agent.TurnCompleted {
		if err := json.Unmarshal(turn.Response, &response); err != nil || response.Usage != cost {
			t.Errorf("turn %s: usage %+v (%v), the steps cost %+v", key, response.Usage, err, cost)
		}
	}
	for _, c := range calls {
		want := 1
		if !turn.State.Terminal() {
			want = outputs[c.ID] // still open
		}
		if outputs[c.ID] != want || outputs[c.ID] > 1 {
			t.Errorf("turn %s: call %s of %s has %d outputs", key, c.ID, c.Name, outputs[c.ID])
		}
	}
}

func (sc *scenario) describeSession() string {
	ctx := sc.t.Context()
	if sc.session == "" {
		return "none\n"
	}
	s, err := sc.store.Session(ctx, caller.Org, sc.session)
	if err != nil {
		return string(agent.KindOf(err)) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mode %s, version %d, turns %d\n", s.Mode, s.Version, s.Turns)
	if s.SolutionContext != "" {
		fmt.Fprintf(&b, "solution context %q\n", s.SolutionContext)
	}
	history, _, err := sc.store.ModeHistory(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, c := range history {
		fmt.Fprintf(&b, "history %d: %s -> %s, reason %q, actor %s, user %s, turn %q, call %q, branch %t, dated %t\n",
			c.Sequence, c.Previous, c.Mode, c.Reason, c.Actor, c.User, c.Turn, c.Call, c.Branch, !c.At.IsZero())
	}
	turns, _, err := sc.store.Turns(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, turn := range turns {
		fmt.Fprintf(&b, "turn %d %s: %s in mode %s\n", turn.Ordinal, turn.Key.Turn, turn.State, turn.Mode)
	}
	return b.String()
}

func describeEvent(e agent.Event) string {
	line := fmt.Sprintf("%d %s", e.Sequence, e.Type)
	switch e.Type {
	case agent.EventModelRequest:
		line += fmt.Sprintf(" n=%d", e.Call)
	case agent.EventTextDelta:
		line += fmt.Sprintf(" %q", e.Text)
	case agent.EventToolStarted:
		line += fmt.Sprintf(" %s %s", e.ToolCallID, e.Name)
	case agent.EventToolFinished:
		line += fmt.Sprintf(" %s %s %s", e.ToolCallID, e.Name, e.Outcome)
	case agent.EventModeChanged:
		line += fmt.Sprintf(" %s -> %s branch=%t reason=%q", e.PreviousMode, e.ModeSwitch.Mode, e.Branch, e.Reason)
	case agent.EventTurnResumed:
		line += fmt.Sprintf(" replaceFrom=%d", e.ReplaceFrom)
	case agent.EventTurnFailed:
		line += " " + string(e.Fault.Kind)
	}
	return line + "\n"
}

// describeRequest summarises one model call: what kind the canonical request is, and
// what the wire request attaches and adds.
func describeRequest(t *testing.T, canonical string, wire []byte) string {
	t.Helper()
	var c struct {
		PreviousResponseID string `json:"previous_response_id"`
		Input              []struct {
			Role    string
			Content []struct{ Text string }
		}
		Tools      []struct{ Name string }
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	var w struct {
		PreviousResponseID string `json:"previous_response_id"`
		Store              *bool
		Instructions       string
		ToolChoice         json.RawMessage `json:"tool_choice"`
		Tools              []struct{ Name string }
		Input              []struct {
			Type, Role string
			CallID     string `json:"call_id"`
			Output     string
			Content    json.RawMessage
		}
	}
	if err := errors.Join(json.Unmarshal([]byte(canonical), &c), json.Unmarshal(wire, &w)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	kind := "initial"
	if c.PreviousResponseID != "" {
		kind = "continuation"
	}
	user := c.Input[len(c.Input)-1]
	fmt.Fprintf(&b, "canonical: %s, %q, %d user items, tools [%s]\n", kind, user.Content[0].Text, len(user.Content), names(c.Tools))
	current := ""
	for line := range strings.Lines(w.Instructions) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Current mode: "); ok {
			current = mode
		}
	}
	fmt.Fprintf(&b, "wire: chained %t, instructions in mode %s, tools [%s]", w.PreviousResponseID != "", current, names(w.Tools))
	if w.ToolChoice != nil {
		fmt.Fprintf(&b, ", tool_choice %s", w.ToolChoice)
	}
	b.WriteString("\n")
	for _, item := range w.Input {
		switch item.Type {
		case "function_call_output":
			fmt.Fprintf(&b, "  output %s: %s\n", item.CallID, item.Output)
		case "function_call":
			fmt.Fprintf(&b, "  call %s\n", item.CallID)
		default:
			fmt.Fprintf(&b, "  %s\n", item.Role)
		}
	}
	return b.String()
}

func names(tools []struct{ Name string }) string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func problem(err error) string {
	b, _ := json.MarshalIndent(agent.FaultOf(err), "", "  ")
	return string(unescape(b)) + "\n"
}

// What two runs need not share: how long a server tool took, and the tokens, which
// the fake provider estimates from the bytes. checkJournal holds the usage to the
// sum of its steps.
var (
	executionMs = regexp.MustCompile(`"executionMs":\s*\d+`)
	usage       = regexp.MustCompile(`"usage":\{[^}]*\}`)
)

func indent(raw []byte) string {
	raw = executionMs.ReplaceAll(raw, []byte(`"executionMs":0`))
	raw = usage.ReplaceAll(raw, []byte(`"usage":{}`))
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw) + "\n"
	}
	return b.String() + "\n"
}

func unescape(b []byte) []byte {
	for from, to := range map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"} {
		b = bytes.ReplaceAll(b, []byte(from), []byte(to))
	}
	return b
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

func (sc *scenario) write(file string) {
	out := &txtar.Archive{Comment: sc.archive.Comment}
	flush := func(name string) {
		for _, suffix := range []string{".sent", ".stream", ".answer.json"} {
			if got, ok := sc.got[name+suffix]; ok {
				out.Files = append(out.Files, txtar.File{Name: name + suffix, Data: []byte(got)})
			}
		}
	}
	for _, f := range sc.archive.Files {
		if _, generated := sc.got[f.Name]; generated {
			continue
		}
		if strings.HasSuffix(f.Name, ".sent") || strings.HasSuffix(f.Name, ".stream") || strings.HasSuffix(f.Name, ".answer.json") {
			continue
		}
		out.Files = append(out.Files, f)
		if n, ok := strings.CutSuffix(f.Name, ".request.json"); ok {
			flush(n)
		}
	}
	out.Files = append(out.Files, txtar.File{Name: "session", Data: []byte(sc.got["session"])})
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		sc.t.Fatal(err)
	}
}
