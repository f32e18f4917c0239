package chat_test

import (
	"strings"
	"testing"
)

const modesJSON = `{"data":[
 {"key":"general","displayName":"General","description":"Everyday questions.","whenToUse":"Use it every day.","tools":["agent_list_modes"]},
 {"key":"ddr_authoring","displayName":"DDR","description":"Design decisions.","whenToUse":"Use it for DDRs.","tools":[]}],"hasMore":false}`

func TestCommands(t *testing.T) {
	r := newRig(t, stream(1, completed("general", "Hi.")))
	general := `{"key":"general","displayName":"General","description":"Everyday questions.","tools":["agent_list_modes"]}`
	r.routes["GET /v1/modes"] = reply(modesJSON)
	r.routes["GET /v1/modes/general"] = reply(general)
	r.routes["GET /v1/tools"] = reply(`{"data":[{"name":"agent_change_mode","description":"Changes the mode. Call only after."},
		{"name":"agent_list_modes","description":"Lists modes."},{"name":"other","description":"Not in this mode."}],"hasMore":false}`)
	r.routes["GET /v1/sessions/s1"] = reply(sessionJSON)
	r.routes["PUT /v1/sessions/s1/mode"] = reply(strings.Replace(sessionJSON, `"general"`, `"ddr_authoring"`, 1))
	r.routes["GET /v1/sessions/s1/mode-history"] = reply(`{"data":[],"hasMore":false}`)
	r.routes["GET /v1/sessions/s1/turns/T/requests"] = reply(`{"data":[
		{"n":1,"canonical":"{\"c\":1}","canonicalSha256":"aaaaaaaaaaaaaaaaaaaa","wire":"{\"w\":1}","wireSha256":"bbbbbbbbbbbbbbbbbbbb","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}},
		{"n":2,"canonical":"{\"c\":2}","canonicalSha256":"cc","wire":"{\"w\":2}","wireSha256":"dd"}],"hasMore":false}`)
	got, err := r.say("/requests", "/mode", "/modes", "/tools", "/history", "hi", "/requests 2", "/requests 3", "/mode ddr_authoring", "/mode ddr_authoring", "/quit")
	check(t, got, err, `[general] > /requests
Error: there was no turn yet
[general] > /mode
general (General): Everyday questions.
[general] > /modes
* general              Use it every day.
  ddr_authoring        Use it for DDRs.
[general] > /tools
On the server, in mode general:
  agent_change_mode  Changes the mode.
  agent_list_modes   Lists modes.
On this machine, in DIR:
  list_files         Lists the files of the user's project directory.
  read_file          Reads a text file of the user's project directory, or some of its lines.
  search_files       Searches the text files of the user's project directory, line by line.
  write_file         Writes a text file in the user's project directory, replacing what is there; missing folders are made.
  run_command        Runs a shell command (sh -c) in the user's project directory and returns its exit code and output.
[general] > /history
The mode has not changed; it is general.
[general] > hi
Hi.
[general] > /requests 2
canonical, sha256 cc
{"c":2}
wire, sha256 dd
{"w":2}
[general] > /requests 3
Error: want the number of a request, 1 to 2
[general] > /mode ddr_authoring
The mode is now ddr_authoring; its tools come with the next turn.
[ddr_authoring] > /mode ddr_authoring
The mode is ddr_authoring already.
[ddr_authoring] > /quit
`)
}

func TestCommands_HistoryAndSession(t *testing.T) {
	t.Setenv("TZ", "UTC")
	r := newRig(t)
	r.routes["GET /v1/sessions/s1"] = reply(sessionJSON)
	r.routes["GET /v1/sessions/s1/mode-history"] = reply(`{"data":[{"previousMode":"general","mode":"ddr_authoring","reason":"A DDR.","at":"2026-01-02T03:04:05Z","actor":"model"}],"hasMore":false}`)
	got, err := r.say("/history", "/session", "/help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"general → ddr_authoring  by model: A DDR.\n", "session   s1\n", "mode      general (General)\n", "turns     3\n",
		"files in  DIR\n", "  /mode [KEY]      show the mode, or change it\n", "  /quit            leave; the session stays\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}
