package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// server is everything that a tool could lay its hands on: it takes mode changes and
// hands out the catalogue.
type server struct {
	changes []agent.ModeChange
	written agent.ModeKey // the mode of the session afterwards, if not the one asked for
	err     error
	panics  any

	summaries []mode.Summary
}

func (s *server) SetSessionMode(_ context.Context, ch agent.ModeChange) (agent.Session, error) {
	s.changes = append(s.changes, ch)
	if s.panics != nil {
		panic(s.panics)
	}
	if s.err != nil {
		return agent.Session{}, s.err
	}
	session := agent.Session{Org: ch.Org, ID: ch.Session, Mode: ch.Mode}
	if s.written != "" {
		session.Mode = s.written
	}
	return session, nil
}

func (s *server) GetAllModes(context.Context) ([]mode.Summary, error) {
	if s.panics != nil {
		panic(s.panics)
	}
	return s.summaries, s.err
}

// journal is a log that can be read back.
type journal struct{ bytes.Buffer }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// entries are the level, tag and error of each line.
func (j *journal) entries(t *testing.T) [][3]string {
	t.Helper()
	var out [][3]string
	for line := range strings.Lines(j.String()) {
		var e struct{ Level, Msg, Tag, Error string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("log line %s: %v", line, err)
		}
		if e.Msg == "" {
			t.Errorf("log line %s says nothing", line)
		}
		out = append(out, [3]string{e.Level, e.Tag, e.Error})
	}
	return out
}

func execution() *tool.ExecutionContext {
	return &tool.ExecutionContext{Caller: agent.Caller{Org: "acme", User: "kim"}, Session: "s1", Turn: "t1", Call: "call_1"}
}

func newChangeMode(t *testing.T, s *server) (tool.Tool, *journal) {
	t.Helper()
	log := &journal{}
	change, err := builtin.NewChangeMode(s, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	return change, log
}

func TestNewChangeMode_NeedsBothDependencies(t *testing.T) {
	prove.Rule(t, "TUL007-3.2-a", "TUL007-3.2-b")
	log := (&journal{}).logger()
	tests := []struct {
		name string
		m    builtin.SessionManager
		log  *slog.Logger
		ok   bool
	}{
		{"both", &server{}, log, true},
		{"no session manager", nil, log, false},
		{"no logger", &server{}, nil, false},
		{"neither", nil, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := builtin.NewChangeMode(tt.m, tt.log)
			if (err == nil) != tt.ok || (got != nil) != tt.ok {
				t.Errorf("NewChangeMode() = %v, %v", got, err)
			}
		})
	}
}

func TestChangeMode_HappyPath(t *testing.T) {
	prove.Rule(t, "TUL007-2-a", "TUL007-3.1-a", "TUL007-3.1-e", "TUL007-3.3-a", "TUL007-3.3-c", "TUL007-3.3-h",
		"TUL007-3.5-a", "TUL007-3.5-b", "TUL007-3.5-c", "TUL007-3.6-a", "TUL007-3.6-b", "TUL007-3.6-f",
		"TUL007-6.1-a", "TUL007-6.1-b", "TUL007-6.1-c")
	tests := []struct {
		name, args, want string
		change           agent.ModeChange // beyond what the context gives
	}{
		{"switch this session", `{"mode":"ddr_authoring","branch":false,"reason":"It is a DDR."}`,
			`{"success":true,"mode":"ddr_authoring","branch":false,"reason":"It is a DDR."}`,
			agent.ModeChange{Mode: "ddr_authoring", Reason: "It is a DDR."}},
		{"a mode that is in no catalogue passes", ` {"reason":"<é> \"x\"","branch":false,"mode":"No such Mode!"} `,
			`{"success":true,"mode":"No such Mode!","branch":false,"reason":"<é> \"x\""}`,
			agent.ModeChange{Mode: "No such Mode!", Reason: `<é> "x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{}
			change, log := newChangeMode(t, s)
			got, err := change.Execute(t.Context(), execution(), tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("result = %s, want %s", got, tt.want)
			}
			want := tt.change
			want.Org, want.User, want.Session, want.Turn, want.Call = "acme", "kim", "s1", "t1", "call_1"
			want.Actor = agent.ActorModel
			if diff := cmp.Diff([]agent.ModeChange{want}, s.changes); diff != "" {
				t.Errorf("calls of SetSessionMode (-want +got):\n%s", diff)
			}
			if log.Len() > 0 {
				t.Errorf("log = %s", log)
			}
		})
	}
}

func TestChangeMode_Branch(t *testing.T) {
	prove.Rule(t, "TUL007-3.3-e", "TUL007-3.3-f", "TUL007-3.6-d", "TUL007-3.6-e")
	for _, branch := range []bool{false, true} {
		s := &server{}
		change, _ := newChangeMode(t, s)
		args, err := json.Marshal(map[string]any{"mode": "m", "branch": branch, "reason": "r"})
		if err != nil {
			t.Fatal(err)
		}
		result, err := change.Execute(t.Context(), execution(), string(args))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Branch bool
			Reason string
		}
		if err := json.Unmarshal([]byte(result), &got); err != nil {
			t.Fatal(err)
		}
		if got.Branch != branch || got.Reason != "r" {
			t.Errorf("result = %s, want branch %v and the reason", result, branch)
		}
		// The flag is surfaced and nothing else: the session is the current one.
		if len(s.changes) != 1 || s.changes[0].Branch != branch || s.changes[0].Session != "s1" {
			t.Errorf("calls of SetSessionMode = %+v", s.changes)
		}
	}
}

func TestChangeMode_ReportsTheModeThatWasWritten(t *testing.T) {
	prove.Rule(t, "TUL007-3.6-c")
	s := &server{written: "other"}
	change, _ := newChangeMode(t, s)
	got, err := change.Execute(t.Context(), execution(), `{"mode":"m","branch":true,"reason":"r"}`)
	if want := `{"success":true,"mode":"other","branch":true,"reason":"r"}`; got != want || err != nil {
		t.Errorf("result = %s, %v, want %s", got, err, want)
	}
}

// The failures of TUL-007, word for word.
const (
	noArguments = "ModeChangeTool requires a non-empty arguments object."
	noContext   = "ModeChangeTool requires a valid execution context."
	noSession   = "ModeChangeTool cannot change mode because the session id is missing."
	noMode      = "ModeChangeTool requires a non-empty 'mode' string."
	noBranch    = "ModeChangeTool requires a 'branch' boolean flag."
	noReason    = "ModeChangeTool requires a non-empty 'reason' string explaining why the mode change is needed."
	unreadable  = "ModeChangeTool requires its arguments to be one JSON object with exactly the members 'mode', 'branch' and 'reason', each of them once."
	others      = ". Send only 'mode', 'branch' and 'reason'; session, organisation and user are taken from the execution context."
)

func TestChangeMode_RefusesBadCallsInOrder(t *testing.T) {
	prove.Rule(t, "TUL007-3.3-b", "TUL007-3.3-d", "TUL007-3.3-g", "TUL007-3.3-i",
		"TUL007-3.4-a", "TUL007-3.4-b", "TUL007-3.4-d", "TUL007-3.4-e", "TUL007-3.4-f", "TUL007-3.4-g", "TUL007-3.4-h", "TUL007-3.4-i",
		"TUL007-4.3-b", "TUL007-4.3-c", "TUL007-6.2-a", "TUL007-6.2-b", "TUL007-6.3-a", "TUL007-6.3-b")
	good := execution()
	nobody := execution()
	nobody.Session = ""
	blank := execution()
	blank.Session = " "
	tests := []struct {
		name string
		ec   *tool.ExecutionContext
		args string
		want string
	}{
		{"no arguments, before everything else", nil, "", noArguments},
		{"blank arguments", nobody, " \t\n", noArguments},
		{"no context, before the session id and the arguments", nil, "{", noContext},
		{"no session id, before the arguments", nobody, "{", noSession},
		{"blank session id", blank, `{"mode":"m","branch":true,"reason":"r"}`, noSession},

		{"not JSON", good, `{"mode":"m"`, unreadable},
		{"an array", good, `["m",true,"r"]`, unreadable},
		{"null", good, `null`, unreadable},
		{"two objects", good, `{"mode":"m","branch":true,"reason":"r"}{}`, unreadable},
		{"a member twice", good, `{"mode":"a","mode":"b","branch":true,"reason":"r"}`, unreadable},
		{"invalid UTF-8", good, "{\"mode\":\"\xff\",\"branch\":true,\"reason\":\"r\"}", unreadable},

		{"nothing at all: the mode is named first", good, `{}`, noMode},
		{"mode missing", good, `{"branch":true,"reason":"r"}`, noMode},
		{"mode null", good, `{"mode":null,"branch":true,"reason":"r"}`, noMode},
		{"mode empty", good, `{"mode":"","branch":true,"reason":"r"}`, noMode},
		{"mode blank", good, `{"mode":" \t","branch":true,"reason":"r"}`, noMode},
		{"mode of another type", good, `{"mode":1,"branch":true,"reason":"r"}`, noMode},
		{"mode in another casing", good, `{"Mode":"m","branch":true,"reason":"r"}`, noMode},

		{"branch and reason missing: branch is named first", good, `{"mode":"m"}`, noBranch},
		{"branch null", good, `{"mode":"m","branch":null,"reason":"r"}`, noBranch},
		{"branch a string", good, `{"mode":"m","branch":"true","reason":"r"}`, noBranch},
		{"branch a number", good, `{"mode":"m","branch":1,"reason":"r"}`, noBranch},

		{"reason missing", good, `{"mode":"m","branch":false}`, noReason},
		{"reason null", good, `{"mode":"m","branch":false,"reason":null}`, noReason},
		{"reason empty", good, `{"mode":"m","branch":false,"reason":""}`, noReason},
		{"reason blank", good, `{"mode":"m","branch":false,"reason":"\u00a0\n"}`, noReason},
		{"reason of another type", good, `{"mode":"m","branch":false,"reason":["r"]}`, noReason},

		{"session, org and user in the arguments", good, `{"sessionId":"s2","mode":"m","branch":true,"reason":"r","org":"evil","user":"root"}`,
			`ModeChangeTool does not accept "org", "sessionId", "user"` + others},
		{"null for them changes nothing", good, `{"mode":"m","branch":true,"reason":"r","sessionId":null}`,
			`ModeChangeTool does not accept "sessionId"` + others},
		{"more of them than anyone wants to read", good, `{"mode":"m","branch":true,"reason":"r","a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`,
			`ModeChangeTool does not accept "a", "b", "c", "d", "e"` + others},
		{"a novel", good, `{"mode":"m","branch":true,"reason":"` + strings.Repeat("r", 16<<10) + `"}`,
			"ModeChangeTool does not take arguments of this length; give a shorter reason."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{}
			change, _ := newChangeMode(t, s)
			got, err := change.Execute(t.Context(), tt.ec, tt.args)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\n want   %s", err, tt.want)
			}
			if got != "" {
				t.Errorf("result = %q beside an error", got)
			}
			if len(s.changes) > 0 {
				t.Errorf("SetSessionMode was called: %+v", s.changes)
			}
		})
	}
}

func TestChangeMode_MissingSessionIsLogged(t *testing.T) {
	prove.Rule(t, "TUL007-3.4-c")
	change, log := newChangeMode(t, &server{})
	ec := execution()
	ec.Session = ""
	if _, err := change.Execute(t.Context(), ec, `{"mode":"m","branch":true,"reason":"r"}`); err == nil {
		t.Fatal("Execute succeeded")
	}
	want := [][3]string{{"ERROR", "[ModeChangeTool_Execute__MissingSession]", ""}}
	if diff := cmp.Diff(want, log.entries(t)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), "session id") || !strings.Contains(log.String(), `"org":"acme"`) {
		t.Errorf("the log does not say what is missing and for whom: %s", log)
	}
}

func TestChangeMode_ManagerFails(t *testing.T) {
	prove.Rule(t, "TUL007-3.6-g", "TUL007-3.6-h", "TUL007-6.4-a", "TUL007-6.4-b")
	tests := []struct {
		name string
		s    *server
		log  string
	}{
		{"an error", &server{err: errors.New("database at 10.0.0.7 is gone")}, "database at 10.0.0.7 is gone"},
		{"an unknown mode", &server{err: agent.Errorf(agent.KindUnknownMode, "There is no mode m.")}, "unknown_mode: There is no mode m."},
		{"a panic", &server{panics: "nil map"}, "panic: nil map"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change, log := newChangeMode(t, tt.s)
			got, err := change.Execute(t.Context(), execution(), `{"mode":"m","branch":true,"reason":"r"}`)
			if want := "ModeChangeTool failed to change the session mode."; err == nil || err.Error() != want {
				t.Errorf("error = %v, want exactly %q", err, want)
			}
			if got != "" {
				t.Errorf("result = %q beside an error", got)
			}
			if len(tt.s.changes) != 1 {
				t.Errorf("SetSessionMode was called %d times, want once", len(tt.s.changes))
			}
			want := [][3]string{{"ERROR", "[ModeChangeTool_Execute__Exception]", tt.log}}
			if diff := cmp.Diff(want, log.entries(t)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// silent answers without saying which mode it wrote.
type silent struct{}

func (silent) SetSessionMode(context.Context, agent.ModeChange) (agent.Session, error) {
	return agent.Session{}, nil
}

func TestChangeMode_ClaimsNoChangeThatNobodyConfirms(t *testing.T) {
	log := &journal{}
	change, err := builtin.NewChangeMode(silent{}, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	got, err := change.Execute(t.Context(), execution(), `{"mode":"m","branch":true,"reason":"r"}`)
	if err == nil || got != "" || log.Len() == 0 {
		t.Errorf("Execute() = %q, %v, log %s", got, err, log)
	}
}

func TestChangeMode_Schema(t *testing.T) {
	prove.Rule(t, "TUL007-3.1-b", "TUL007-3.3-a", "TUL007-3.3-i", "TUL007-4.4-b", "TUL007-5.1-a", "TUL007-5.3-a")
	change, _ := newChangeMode(t, &server{})
	got := string(tool.Schema(change.Definition()))
	want := `{"type":"function","name":"agent_change_mode","description":"Changes the mode for the current agent session to the specified mode string. ` +
		`Call only after the user confirms a mode change, and provide a short 'reason' describing why this mode fits the current request. ` +
		`Set branch=true when the user wants the new work to start as a separate session.",` +
		`"parameters":{"type":"object","properties":{` +
		`"mode":{"type":"string","description":"The key of the mode to change to."},` +
		`"branch":{"type":"boolean","description":"false: change the mode and keep working in this session. true: change the mode, and the user wants the new work to start as a new session."},` +
		`"reason":{"type":"string","description":"A short explanation of why this mode fits the current request."}},` +
		`"required":["mode","branch","reason"],"additionalProperties":false},"strict":false}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// TestChangeMode_Guidance holds the words that the model reads to what TUL-007 asks of
// the model. Those rules cannot be enforced here; that the server stays safe when they
// are ignored is shown by TestChangeMode_RefusesBadCallsInOrder.
func TestChangeMode_Guidance(t *testing.T) {
	change, _ := newChangeMode(t, &server{})
	d := change.Definition()
	says := func(t *testing.T, phrases ...string) {
		t.Helper()
		for _, p := range phrases {
			if !strings.Contains(d.Usage, p) {
				t.Errorf("the usage metadata does not say %q:\n%s", p, d.Usage)
			}
		}
	}
	t.Run("not yet", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.1-a")
		says(t, "do not call this tool yet")
	})
	t.Run("propose", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.1-b")
		says(t, "propose a specific target mode")
	})
	t.Run("three options", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.1-c")
		says(t, "(1) stay in the current mode, (2) switch this session to that mode, or (3) switch and start a new session")
	})
	t.Run("sample wording", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.1-d")
		says(t, "would be better served by MODE_XYZ mode", "1) Stay in the current mode", "2) Switch this session to MODE_XYZ", "3) Switch to MODE_XYZ and start a new session for this work?")
	})
	t.Run("stay", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.2-a")
		says(t, "If the user chooses to stay (option 1), do not call this tool")
	})
	t.Run("switch this session", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.2-b")
		says(t, "Option 2, switch this session: branch=false")
	})
	t.Run("switch and start a new one", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.2-c")
		says(t, "Option 3, switch and start a new session: branch=true")
	})
	t.Run("confirmation", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.3-a")
		says(t, "only after the user has explicitly agreed", "Never call this tool without the user's explicit confirmation")
		if !strings.Contains(d.Description, "Call only after the user confirms a mode change") {
			t.Errorf("the description does not ask for confirmation: %s", d.Description)
		}
	})
	t.Run("all arguments", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.3-b")
		says(t, "Always give all three arguments: a non-empty mode string", "a branch boolean", "a non-empty reason string")
	})
	t.Run("no identities", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.3-c")
		says(t, "Never put sessionId, org or user into the arguments")
	})
	t.Run("sparingly", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.3-d")
		says(t, "This tool is always available. Use it sparingly")
	})
	t.Run("the recommended text", func(t *testing.T) {
		prove.Rule(t, "TUL007-4.4-a", "TUL007-5.2-a")
		if !strings.HasPrefix(d.Usage, "Use this tool to change the current agent session mode, but only after the user "+
			"has explicitly agreed to switch. First, propose a specific target mode and ask "+
			"whether the user wants to (1) stay in the current mode, (2) switch this session "+
			"to that mode, or (3) switch and start a new session. "+
			"Call this tool only for options (2) or (3): use branch=false for switching the "+
			"current session, and branch=true when the user wants to switch and start a new session.\n") {
			t.Errorf("usage metadata = %s", d.Usage)
		}
	})
	t.Run("tools come with the next turn", func(t *testing.T) {
		says(t, "its tools become available with the next turn")
	})
}
