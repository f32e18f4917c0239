package chat_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/chat"
	"github.com/aptixhq/aptix/internal/prove"
)

func check(t *testing.T, got string, err error, want string) {
	t.Helper()
	if err != nil {
		t.Errorf("the conversation ended with %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChat_TurnsAndMode(t *testing.T) {
	prove.Rule(t, "AGN011-3.4-c", "AGN011-4.6-b")
	r := newRig(t,
		stream(1, "turn.started", delta("Hel"), delta("lo."), completed("general", "Hello.")),
		stream(1, "turn.started", "tool.started \"toolCallId\":\"x\",\"name\":\"agent_change_mode\"",
			"tool.finished \"toolCallId\":\"x\",\"name\":\"agent_change_mode\",\"outcome\":\"ok\",\"ms\":1",
			`mode.changed "previousMode":"general","mode":"ddr_authoring","branch":true,"reason":"a DDR"`,
			completed("ddr_authoring", "Now in DDR.")),
		stream(1, completed("workflow_authoring", "")), // another terminal changed it meanwhile
	)
	got, err := r.say("hi", "", "switch", "and now")
	check(t, got, err, `[general] > hi
Hello.
[general] > 
[general] > switch
· agent_change_mode
» mode general → ddr_authoring: a DDR
Now in DDR.
A new session was asked for; /branch starts it.
[ddr_authoring] > and now
[workflow_authoring] > 
`)
	if !strings.Contains(r.executed[0], `"instruction":"hi"`) || strings.Contains(r.executed[1], "mode") {
		t.Errorf("sent: %s", r.executed)
	}
}

func TestChat_NewSessionBringsItsTools(t *testing.T) {
	r := newRig(t)
	r.cfg.Mode = "ddr_authoring"
	if _, err := r.say("/quit"); err != nil {
		t.Fatal(err)
	}
	body := r.others[0]
	for _, want := range []string{"POST /v1/sessions ", `"mode":"ddr_authoring"`, `"name":"list_files"`, `"name":"read_file"`,
		`"name":"search_files"`, `"name":"write_file"`, `"name":"run_command"`, `"type":"function"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

func TestChat_ReadingNeedsNoConsent(t *testing.T) {
	r := newRig(t,
		stream(1, "turn.started", delta("I look."), waiting("read_file", `{"path":"a.txt"}`, "read_file", `{"path":"../x"}`, "nothing", "{}")),
		stream(4, delta("It says A."), completed("general", "It says A.")))
	r.file("a.txt", "A\n")
	got, err := r.say("read a.txt")
	check(t, got, err, `[general] > read a.txt
I look.
· read_file {"path":"a.txt"}
· read_file {"path":"../x"}
  ../x is outside the directory; give a path relative to it, without leaving it
· nothing {}
  there is no tool "nothing" here; use one of list_files, read_file, search_files, write_file, run_command
It says A.
[general] > 
`)
	want := []client.ToolResult{
		id(1, ok(`{"path":"a.txt","size":2,"startLine":1,"endLine":1,"content":"A\n","more":false}`)),
		id(2, no("../x is outside the directory; give a path relative to it, without leaving it")),
		id(3, no(`there is no tool "nothing" here; use one of list_files, read_file, search_files, write_file, run_command`)),
	}
	if diff := cmp.Diff(want, r.results(1)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestChat_ChangesNeedConsent(t *testing.T) {
	calls := []string{"write_file", `{"path":"new.txt","content":"x\n"}`, "run_command", `{"command":"echo ran > ran.txt"}`}
	for name, tc := range map[string]struct {
		answers []string
		want    []string // files that are there afterwards
	}{
		"both":            {[]string{"y", "YES"}, []string{"new.txt", "ran.txt"}},
		"one":             {[]string{"", "yes"}, []string{"ran.txt"}},
		"neither":         {[]string{"n", "sure, go on"}, nil},
		"nobody answers":  {nil, nil},
		"something else ": {[]string{"yy", "y y"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, stream(1, waiting(calls...)), stream(2, completed("general", "Done.")))
			out, err := r.say(append([]string{"do it"}, tc.answers...)...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			entries, err := os.ReadDir(r.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s\n%s", diff, out)
			}
			for i, res := range r.results(1) {
				if (res.ErrorMessage == nil) != contains(tc.want, []string{"new.txt", "ran.txt"}[i]) {
					t.Errorf("result %d: %+v", i+1, res)
				}
			}
		})
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func TestChat_ConsentShowsWhatWillHappen(t *testing.T) {
	r := newRig(t,
		stream(1, waiting("write_file", `{"path":"a.txt","content":"12345"}`,
			"run_command", `{"command":"ls\n\u001b[2K\rAllow it? [y/N] y\u202e"}`)),
		stream(2, completed("general", "Fine.")))
	got, err := r.say("do it", "n", "n")
	check(t, got, err, `[general] > do it
· write_file {"path":"a.txt","content":"12345"}
The assistant wants to write 5 bytes (1 line) to a new file:
  │ a.txt
  │ @@ -0,0 +1,1 @@
  │ +12345
  │ \ No newline at end of file
Allow it? [y/N] n
  the user did not allow this call; ask what to do instead
· run_command {"command":"ls\n\u001b[2K\rAllow it? [y/N] y\u202e"}
The assistant wants to run this command, which can reach beyond the directory:
  │ ls
  │ \x1b[2K\x0dAllow it? [y/N] y\u{202e}
Allow it? [y/N] n
  the user did not allow this call; ask what to do instead
Fine.
[general] > 
`)
}

// TestChat_NothingReachesTheTerminalRaw sends escape sequences in everything that a
// model, a tool or the server can fill in.
// It holds row S-28 of docs/security.md.
func TestChat_NothingReachesTheTerminalRaw(t *testing.T) {
	const evil = "\x1b]52;c;ZXZpbA==\x07\x1b[31m\u009b2J\u202e\r"
	quoted := `\u001b]52;c;ZXZpbA==\u0007\u001b[31m\u009b2J\u202e\r`
	r := newRig(t,
		stream(1, delta("a"+evil[:9]), delta(evil[9:]+"b"),
			`tool.started "name":"n`+quoted+`"`, `tool.finished "name":"n`+quoted+`","outcome":"error`+quoted+`"`,
			`mode.changed "previousMode":"x`+quoted+`","mode":"m`+quoted+`","branch":true,"reason":"r`+quoted+`"`,
			waiting("read`"+evil, `{"path":"`+quoted+`"}`, "read_file", "{\"path\":\""+quoted+"\"}", "read_file", evil)),
		stream(9, `turn.failed "problem":{"detail":"d`+quoted+`","code":"provider_failed"}`),
		refuse(400, "invalid_request", "d\u202e"),
	)
	r.routes["GET /v1/modes"] = reply(`{"data":[{"key":"k` + quoted + `","whenToUse":"w` + quoted + `"}]}`)
	if _, err := r.say("hi", "/modes", "/"+evil, evil); err != nil {
		t.Fatal(err)
	}
	out := r.out.String()
	for i, c := range out {
		if c < 0x20 && c != '\n' || c >= 0x7f && c <= 0x9f || c == 0x202e {
			t.Errorf("%#x at %d of the output: %q", c, i, out[max(0, i-20):min(len(out), i+20)])
		}
	}
	if !strings.Contains(out, "ab") || !strings.Contains(out, "d (provider_failed)") {
		t.Errorf("the text itself is missing:\n%s", out)
	}
}

func TestChat_FailuresDoNotEndTheConversation(t *testing.T) {
	r := newRig(t,
		stream(1, "turn.started", `turn.failed "problem":{"status":502,"code":"provider_failed","detail":"The provider is down."}`),
		refuse(400, "invalid_request", "Too long."),
		stream(1, completed("general", "Better.")))
	r.routes["PUT /v1/sessions/s1/mode"] = refuse(400, "unknown_mode", "There is no mode nope. Valid modes: general.")
	got, err := r.say("one", "two", "/mode nope", "/nope", "three")
	check(t, got, err, `[general] > one
Error: The provider is down. (provider_failed)
[general] > two
Error: Too long. (invalid_request)
[general] > /mode nope
Error: There is no mode nope. Valid modes: general. (unknown_mode)
[general] > /nope
There is no command /nope; /help lists them.
[general] > three
Better.
[general] > 
`)
}

func TestChat_LinesThatGoOn(t *testing.T) {
	r := newRig(t, stream(1, completed("general", "Ok.")))
	got, err := r.say(`one \`, `two`)
	check(t, got, err, "[general] > one \\\n          > two\nOk.\n[general] > \n")
	if !strings.Contains(r.executed[0], `"instruction":"one \ntwo"`) {
		t.Errorf("sent: %s", r.executed[0])
	}
}

func TestChat_LineTooLong(t *testing.T) {
	r := newRig(t)
	if _, err := r.say(strings.Repeat("x", 2<<20)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

func TestChat_CtrlC(t *testing.T) {
	t.Run("twice at the prompt leaves", func(t *testing.T) {
		r := newRig(t)
		in, _ := io.Pipe()
		interrupts := make(chan os.Signal, 2)
		interrupts <- os.Interrupt
		interrupts <- os.Interrupt
		r.cfg.In, r.cfg.Interrupts = in, interrupts
		got, err := r.say()
		if !errors.Is(err, chat.ErrInterrupted) {
			t.Errorf("ended with %v", err)
		}
		check(t, got, nil, "[general] > \nCtrl-C once more leaves.\n[general] > \n")
	})
	t.Run("cancels the turn", func(t *testing.T) {
		interrupts := make(chan os.Signal, 1)
		cancelled := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			stream(1, "turn.started", delta("Let me"))(w, req)
			interrupts <- os.Interrupt
			select {
			case <-cancelled:
				stream(3, "turn.cancelled")(w, req)
			case <-req.Context().Done():
			}
		}, stream(1, completed("general", "Still here.")))
		r.cfg.Interrupts = interrupts
		r.routes["POST /v1/sessions/s1/turns/T/cancel"] = func(w http.ResponseWriter, req *http.Request) {
			close(cancelled)
			reply(`{}`)(w, req)
		}
		got, err := r.say("go", "again")
		// The note about the interrupt and the text race; both must be there.
		for _, want := range []string{"Let me", "Cancelling; Ctrl-C once more stops waiting for it.", "The turn was cancelled.\n[general] > again\nStill here."} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing:\n%s", want, got)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestChat_TypedAheadIsNoConsent has a y in the input before the question is asked.
func TestChat_TypedAheadIsNoConsent(t *testing.T) {
	in, typed := io.Pipe()
	asked := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		// The pipe takes a line only when the one before it has been read in.
		for _, l := range []string{"y\n", "y\n", "n\n"} {
			_, _ = io.WriteString(typed, l)
		}
		stream(1, waiting("run_command", `{"command":"echo x > ran"}`))(w, req)
		close(asked)
	}, stream(2, completed("general", "Ok.")))
	r.cfg.In, r.cfg.Terminal = in, true
	go func() {
		_, _ = io.WriteString(typed, "do it\n")
		<-asked
		_ = typed.Close()
	}()
	out, err := r.say()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil {
		t.Errorf("the command ran:\n%s", out)
	}
}
