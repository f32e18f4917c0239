package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/client"
)

// TestAsk_Streamed shows a turn as a terminal would: piece by piece, safely, and with
// the rest beside it.
func TestAsk_Streamed(t *testing.T) {
	const answer = `"response":{"kind":"final","sessionId":"s","turnId":"t","mode":"general","modeDisplayName":"General","primaryOutputText":"Hello."`
	for name, tc := range map[string]struct {
		events           []string
		out, notes, fail string
	}{
		"pieces":      {[]string{`text.delta "text":"Hel"`, `text.delta "text":"lo."`, `turn.completed ` + answer + `}`}, "Hello.\n", "", ""},
		"in one":      {[]string{`turn.completed ` + answer + `}`}, "Hello.\n", "", ""},
		"its own end": {[]string{`text.delta "text":"Hello.\n"`, `turn.completed ` + answer + `}`}, "Hello.\n", "", ""},
		"sequences":   {[]string{`text.delta "text":"a\u001b]52;c;"`, `text.delta "text":"evil\u0007b"`, `turn.completed ` + answer + `}`}, "ab\n", "", ""},
		"mode and warnings": {[]string{`turn.completed ` + answer + `,"userWarnings":["careful\u001b[2J"],
			"modeChange":{"previousMode":"general","mode":"ddr_authoring","branch":true,"reason":"asked"}}`}, "Hello.\n",
			"The mode changed from general to ddr_authoring: asked\nA new session was asked for: /branch in 'aptix chat --session s' starts it.\nWarning: careful\n", ""},
		"restart": {[]string{`text.delta "text":"Hel"`, `turn.resumed "replaceFrom":2`, `text.delta "text":"Hello."`, `turn.completed ` + answer + `}`},
			"Hel\nHello.\n", "The server was restarted and answers again.\n", ""},
		"failed":    {[]string{`text.delta "text":"Hel"`, `turn.failed "problem":{"code":"provider_failed","detail":"down"}`}, "Hel\n", "", "down (provider_failed)"},
		"cancelled": {[]string{`turn.cancelled`}, "", "", "the turn was cancelled"},
		"client tools": {[]string{`turn.waiting "response":{"kind":"client_tool_continuation","sessionId":"s","turnId":"t","mode":"general","toolCalls":[{"toolCallId":"c"}]}`},
			"", "", "the turn waits for tools of this session's client; go on with 'aptix chat --session s'"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i, e := range tc.events {
					event, members, _ := strings.Cut(e, " ")
					if members != "" {
						members = "," + strings.ReplaceAll(members, "\n", "")
					}
					fmt.Fprintf(w, "event: %s\nid: %d\ndata: {\"type\":%q,\"sequence\":%d%s}\n\n", event, i+1, event, i+1, members)
				}
			}))
			t.Cleanup(s.Close)
			c, err := client.New(client.Config{URL: s.URL, Backoff: func(int) time.Duration { return 0 }})
			if err != nil {
				t.Fatal(err)
			}
			var out, notes bytes.Buffer
			err = asking{client: c, turn: client.UserTurn{SessionID: "s", TurnID: "t", Instruction: "hi"}, out: &out, notes: &notes}.streamed(t.Context())
			if fmt.Sprint(err) != tc.fail && (err != nil || tc.fail != "") {
				t.Errorf("ended with %v, want %q", err, tc.fail)
			}
			if diff := cmp.Diff([]string{tc.out, tc.notes}, []string{out.String(), notes.String()}); diff != "" {
				t.Errorf("output and notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstruction(t *testing.T) {
	for want, tc := range map[string]struct {
		args []string
		in   string
	}{
		"one two": {[]string{"one", "two"}, "unread"},
		"piped\n": {[]string{"-"}, "piped\n"},
		"- -":     {[]string{"-", "-"}, "unread"},
	} {
		if got, err := instruction(strings.NewReader(tc.in), tc.args); err != nil || got != want {
			t.Errorf("%q: got %q, %v", tc.args, got, err)
		}
	}
	if _, err := instruction(io.LimitReader(zeros{}, maxInstruction+10), []string{"-"}); err == nil {
		t.Error("an endless input was read")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
