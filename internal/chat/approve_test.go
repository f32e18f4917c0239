package chat_test

import (
	"net/http"
	"strings"
	"testing"
)

const (
	deployAsked = `turn.waiting "response":{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t","mode":"general","toolCalls":[],"approvals":[` +
		`{"approvalId":"apr_1","toolCallId":"c1","name":"deploy","argumentsJson":"{\"target\":\"production\"}","options":["approve","deny"],"mayRemember":true,"deadline":"2026-01-02T03:04:05Z"},` +
		`{"approvalId":"apr_2","toolCallId":"c2","name":"erase","argumentsJson":"{}","options":["approve","deny"],"deadline":"2026-01-02T03:04:05Z"}]}`
	switchAsked = `turn.waiting "response":{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t","mode":"general","toolCalls":[],"approvals":[` +
		`{"approvalId":"apr_1","toolCallId":"c1","name":"agent_change_mode","argumentsJson":"{}","options":["stay","switch","switch_and_branch"],"deadline":"2026-01-02T03:04:05Z",` +
		`"modeChange":{"previousMode":"general","mode":"ddr_authoring","branch":false,"reason":"A DDR is better."}}]}`
)

// decisions takes the decisions of the rig's approvals and goes on with the stream.
func (r *rig) decisions(then http.HandlerFunc) {
	for _, id := range []string{"apr_1", "apr_2"} {
		r.routes["POST /v1/sessions/s1/turns/T/approvals/"+id] = reply(`{"approvalId":"` + id + `","decision":"approve"}`)
	}
	r.routes["GET /v1/sessions/s1/turns/T/events"] = then
}

// sentDecisions are the bodies of the decisions, in their order.
func (r *rig) sentDecisions() (bodies []string) {
	for _, o := range r.others {
		if method, rest, _ := strings.Cut(o, " "); method == "POST" && strings.Contains(rest, "/approvals/") {
			path, body, _ := strings.Cut(rest, " ")
			bodies = append(bodies, path[strings.LastIndex(path, "/")+1:]+" "+body)
		}
	}
	return bodies
}

func TestChat_ApprovalsAreAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name, asked string
		keys        []string
		want        []string
	}{
		{"approve and deny", deployAsked, []string{"a", "d"}, []string{`apr_1 {"decision":"approve"}`, `apr_2 {"decision":"deny"}`}},
		{"for the session", deployAsked, []string{"s", "A"}, []string{`apr_1 {"decision":"approve","remember":true}`, `apr_2 {"decision":"approve"}`}},
		{"a key that is none, and enter", deployAsked, []string{"yes", "", "d", "s", "d"}, []string{`apr_1 {"decision":"deny"}`, `apr_2 {"decision":"deny"}`}},
		{"stay", switchAsked, []string{"1"}, []string{`apr_1 {"decision":"stay"}`}},
		{"switch", switchAsked, []string{"a", "2"}, []string{`apr_1 {"decision":"switch"}`}},
		{"switch and branch", switchAsked, []string{"3"}, []string{`apr_1 {"decision":"switch_and_branch"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, stream(1, "turn.started", tt.asked))
			r.decisions(stream(3, `approval.decided "approvalId":"apr_1","decision":"approve"`, completed("general", "Done.")))
			got, err := r.say(append([]string{"go"}, tt.keys...)...)
			if err != nil {
				t.Fatal(err)
			}
			if sent := r.sentDecisions(); strings.Join(sent, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("sent %q, want %q", sent, tt.want)
			}
			if !strings.Contains(got, "Done.\n") {
				t.Errorf("the answer is missing:\n%s", got)
			}
			last := r.others[len(r.others)-1]
			if !strings.HasPrefix(last, "GET /v1/sessions/s1/turns/") || !strings.HasSuffix(last, "/events?after=2") {
				t.Errorf("the turn was followed by %s", last)
			}
		})
	}
}

func TestChat_ApprovalShowsWhatWillHappen(t *testing.T) {
	r := newRig(t, stream(1, "turn.started", deployAsked))
	r.decisions(stream(3, completed("general", "Done.")))
	got, err := r.say("go", "d", "a")
	check(t, got, err, `[general] > go
The assistant wants the server to run deploy:
  │ {"target":"production"}
[a] approve  [d] deny  [s] approve for this session  > d
The assistant wants the server to run erase:
  │ {}
[a] approve  [d] deny  > a
Done.
[general] > 
`)
}

// Nobody who says no key, and nobody at all, decides nothing: the turn waits.
func TestChat_NobodyDecides(t *testing.T) {
	for name, keys := range map[string][]string{"the input ends": nil, "three keys that are none": {"y", "yes", "1"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, stream(1, "turn.started", deployAsked))
			got, err := r.say(append([]string{"go"}, keys...)...)
			if err != nil || len(r.sentDecisions()) != 0 || !strings.Contains(got, "The turn waits for the decision; aptix chat --url URL --session s1 asks again.") {
				t.Errorf("error %v, decided %q:\n%s", err, r.sentDecisions(), got)
			}
		})
	}
}

// A decision that somebody else made is told, and the turn goes on.
func TestChat_DecidedElsewhere(t *testing.T) {
	r := newRig(t, stream(1, "turn.started", switchAsked))
	r.decisions(stream(3, completed("ddr_authoring", "Switched.")))
	r.routes["POST /v1/sessions/s1/turns/T/approvals/apr_1"] = refuse(409, "approval_decided", "bob decided \"switch\" on apr_1 already.")
	got, err := r.say("go", "1")
	if err != nil || !strings.Contains(got, "bob decided") || !strings.Contains(got, "Switched.") {
		t.Errorf("error %v:\n%s", err, got)
	}
}

func TestChat_Branch(t *testing.T) {
	r := newRig(t, stream(1, completed("ddr_authoring", "In the new session.")))
	r.routes["POST /v1/sessions/s1/branch"] = reply(`{"sessionId":"s2","mode":"ddr_authoring","welcomeMessage":"Welcome.","parent":{"sessionId":"s1","turnId":"t1"}}`)
	r.cfg.In = strings.NewReader("/branch ddr_authoring\nhi\n")
	got, err := r.say()
	if err != nil || !strings.Contains(got, "Session s2, branched off s1, which stays as it is.\nWelcome.\n[ddr_authoring] > hi\n") {
		t.Errorf("error %v:\n%s", err, got)
	}
	if !strings.Contains(r.executed[0], `"sessionId":"s2"`) {
		t.Errorf("the turn was sent to %s", r.executed[0])
	}
}

func TestChat_EntryIsShown(t *testing.T) {
	r := newRig(t, stream(1, `turn.started "welcomeMessage":"Say what you need."`,
		`mode.changed "previousMode":"general","mode":"releasing","branch":false,"reason":"r","welcomeMessage":"Which release?"`,
		`mode.entered "entry":{"mode":"releasing","ready":false,"problem":"look: no"}`, completed("releasing", "Well.")))
	got, err := r.say("hi")
	check(t, got, err, `[general] > hi
Say what you need.
» mode general → releasing: r
Which release?
» mode releasing is not ready: look: no
Well.
[releasing] > 
`)
}
