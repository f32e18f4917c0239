package chat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/client"
)

// resuming returns a rig for a session whose last turn is in a state.
func resuming(t *testing.T, r *rig, state string, events ...string) *rig {
	t.Helper()
	r.cfg.Session = "s1"
	r.routes["PUT /v1/sessions/s1/tools"] = reply(sessionJSON)
	r.routes["GET /v1/sessions/s1/turns"] = reply(`{"data":[{"turnId":"t0","state":"completed"},{"turnId":"t1","state":"` + state + `"}],"hasMore":false}`)
	r.routes["GET /v1/sessions/s1/turns/T/events"] = stream(1, events...)
	return r
}

const resumed = "Session s1 at URL, 3 turns so far. The assistant may read files in DIR.\n"

func TestResume_NothingUnfinished(t *testing.T) {
	r := resuming(t, newRig(t), "completed")
	got, err := r.say()
	check(t, got, err, resumed+"[general] > \n")
	if !strings.HasPrefix(r.others[0], `PUT /v1/sessions/s1/tools {"tools":[{"type":"function","name":"list_files"`) {
		t.Errorf("the session did not get this terminal's tools: %s", r.others[0])
	}
}

func TestResume_GoesOnWithAWaitingTurn(t *testing.T) {
	r := resuming(t, newRig(t, stream(4, completed("general", "It says A."))), "waiting",
		"turn.started", delta("I look."), waiting("read_file", `{"path":"a.txt"}`))
	r.file("a.txt", "A\n")
	got, err := r.say("y")
	check(t, got, err, resumed+`The last turn of this session is not finished (waiting). It says:
I look.
It waits for the results of: read_file.
Go on with it? (no cancels it) [Y/n] y
· read_file {"path":"a.txt"}
It says A.
[general] > 
`)
	want := []client.ToolResult{id(1, ok(`{"path":"a.txt","size":2,"startLine":1,"endLine":1,"content":"A\n","more":false}`))}
	if diff := cmp.Diff(want, r.results(0)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if !strings.Contains(r.executed[0], `"turnId":"t1"`) {
		t.Errorf("the results belong to another turn: %s", r.executed[0])
	}
}

func TestResume_CancelsAWaitingTurn(t *testing.T) {
	r := resuming(t, newRig(t), "waiting", "turn.started", waiting("read_file", `{"path":"a.txt"}`))
	r.routes["POST /v1/sessions/s1/turns/T/cancel"] = reply(`{}`)
	got, err := r.say("n")
	check(t, got, err, resumed+`The last turn of this session is not finished (waiting). It says:
It waits for the results of: read_file.
Go on with it? (no cancels it) [Y/n] n
The turn was cancelled.
[general] > 
`)
	if last := r.others[len(r.others)-1]; last != "POST /v1/sessions/s1/turns/t1/cancel" {
		t.Errorf("last request: %s", last)
	}
}

func TestResume_LeavesTheTurnWhenNobodyDecides(t *testing.T) {
	r := resuming(t, newRig(t), "waiting", "turn.started", waiting("read_file", `{"path":"a.txt"}`))
	if _, err := r.say(); err != nil || len(r.executed) > 0 {
		t.Errorf("ended with %v after %q", err, r.executed)
	}
}

// TestResume_FollowsARunningTurn passes by the delivery that is over already.
func TestResume_FollowsARunningTurn(t *testing.T) {
	r := resuming(t, newRig(t), "running", "turn.started", waiting("read_file", `{"path":"a.txt"}`),
		delta("Now I know."), completed("ddr_authoring", "Now I know."))
	got, err := r.say()
	check(t, got, err, resumed+`The last turn of this session is not finished (running). It says:
Now I know.
[ddr_authoring] > 
`)
}

func TestResume_UnknownSession(t *testing.T) {
	r := newRig(t)
	r.cfg.Session = "gone"
	r.routes["PUT /v1/sessions/gone/tools"] = refuse(404, "not_found", "There is no such session.")
	if _, err := r.say(); client.CodeOf(err) != client.CodeNotFound {
		t.Errorf("ended with %v", err)
	}
}

func TestTurnInProgress_OffersTheOtherTurn(t *testing.T) {
	r := resuming(t, newRig(t, refuse(409, "turn_in_progress", "Turn t1 is not finished.")), "waiting", "turn.started", waiting("read_file", `{"path":"a.txt"}`))
	r.cfg.Session = ""
	r.routes["POST /v1/sessions/s1/turns/T/cancel"] = reply(`{}`)
	got, err := r.say("hi", "n")
	check(t, got, err, `[general] > hi
Error: Turn t1 is not finished. (turn_in_progress)
The last turn of this session is not finished (waiting). It says:
It waits for the results of: read_file.
Go on with it? (no cancels it) [Y/n] n
The turn was cancelled.
[general] > 
`)
}
