package streams

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// story is a turn with pieces of text, server tools, a change of the mode and an answer.
func story() []llmtest.Reply {
	return []llmtest.Reply{
		{Deltas: []string{"Let ", "me ", "see\n\n", "…"}, Calls: []llmtest.Call{{Name: "agent_list_modes"}}},
		{Text: "I switch.", Calls: []llmtest.Call{{Name: "agent_change_mode", Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"A test."}`}}},
		{Deltas: []string{"Here ", "it ", "is: ", "\u2028\"}\\"}},
	}
}

// stride is how many bytes lie between two connections that are really cut. The bytes
// between them are cut out of what a whole connection brought, which for the reader is
// the same.
func stride() int {
	if long() {
		return 1
	}
	return 211
}

const execute = `{"sessionId":"s","turnId":"t","instruction":"Tell.","stream":true}`

// Wherever the connection breaks, what a reader has and what it gets when it comes back
// are the stream that was not cut.
func TestCut_AfterEveryByte(t *testing.T) {
	r := newRig(t, options{}, story()...)
	whole, _ := r.read(t, r.request(t, "POST", "/v1/agent/execute", execute), -1)
	for _, want := range []string{"event: text.delta", "event: tool.finished", "event: mode.changed", "event: turn.completed"} {
		if !strings.Contains(whole, want) {
			t.Fatalf("no %q in\n%s", want, whole)
		}
	}
	const path = "/v1/sessions/s/turns/t/events"
	everyByte(t, r, whole, path, func(seen string, k int) (string, string, []string) {
		id := last(seen, "\nid: ")
		switch {
		case id == "" && k%2 == 0:
			return "POST", "/v1/agent/execute", []string{execute}
		case id == "" || k%2 == 0:
			return "GET", path + "?after=" + id, nil
		}
		return "GET", path + "?after=1", []string{"", "Last-Event-ID", id} // the header is fresher
	})
}

// The same at the second door, where the number of an event stands in its data.
func TestCut_AfterEveryByteAtTheSecondDoor(t *testing.T) {
	r := newRig(t, options{}, story()...)
	const create = `{"model":"default","input":"Tell.","stream":true}`
	whole, _ := r.read(t, r.request(t, "POST", "/v1/responses", create, "Idempotency-Key", "k"), -1)
	for _, want := range []string{"event: response.created", "event: response.output_text.delta", "event: response.completed"} {
		if !strings.Contains(whole, want) {
			t.Fatalf("no %q in\n%s", want, whole)
		}
	}
	path := "/v1/responses/" + last(whole[:strings.Index(whole, "\n\n")], `"response":{"id":"`) + "?stream=true"
	everyByte(t, r, whole, path, func(seen string, k int) (string, string, []string) {
		if id := last(seen, `"sequence_number":`); id != "" {
			return "GET", path + "&starting_after=" + id, nil
		}
		if k%2 == 0 {
			return "POST", "/v1/responses", []string{create, "Idempotency-Key", "k"}
		}
		return "GET", path, nil
	})
}

// everyByte cuts the stream at path after every byte that goes over the wire, headers
// and framing included, and goes on as resume says: with a method, a path, and a body
// and headers.
func everyByte(t *testing.T, r *rig, whole, path string, resume func(seen string, k int) (method, path string, rest []string)) {
	t.Helper()
	uncut, wire := r.read(t, r.request(t, "GET", path, ""), -1)
	if uncut != whole {
		t.Fatalf("read again it is\n%s\nwant\n%s", uncut, whole)
	}
	t.Logf("%d bytes, of which every %d. is a cut connection", len(wire), stride())
	known := map[string]string{} // what the rest of the stream is for those who have seen so much
	for k := range wire {
		got := bodyOf(wire[:k])
		if k%stride() == 0 {
			if cut, _ := r.read(t, r.request(t, "GET", path, ""), k); cut != got {
				t.Fatalf("cut after byte %d: got %q, want %q", k, cut, got)
			}
		}
		seen := complete(got)
		method, to, rest := resume(seen, k)
		rest = append(rest, make([]string, max(0, 1-len(rest)))...)
		way := fmt.Sprint(method, to, rest)
		more, ok := known[way]
		if !ok {
			more, _ = r.read(t, r.request(t, method, to, rest[0], rest[1:]...), -1)
			known[way] = more
		}
		if seen+more != whole {
			t.Fatalf("cut after byte %d, gone on with %s %s: assembled\n%s\nwant\n%s", k, method, to, seen+more, whole)
		}
	}
}

// bodyOf returns as much of a body as the bytes of a connection hold.
func bodyOf(wire []byte) string {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), nil)
	if err != nil {
		return ""
	}
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// The same while the turn runs: what the reader missed meanwhile, and what comes after
// it is back. The model stands still in its text until the reader has been cut.
func TestCut_WhileTheTurnRuns(t *testing.T) {
	for name, door := range map[string]struct {
		path, body, mark string
		goOn             func(turn int, seen, id string) string
	}{
		"first door": {"/v1/agent/execute", `{"sessionId":"s%d","turnId":"t","instruction":"Tell.","stream":true}`, "\nid: ",
			func(turn int, _, id string) string {
				return fmt.Sprintf("/v1/sessions/s%d/turns/t/events?after=%s", turn, id)
			}},
		"second door": {"/v1/responses", `{"model":"default","input":"Tell %d.","stream":true}`, `"sequence_number":`,
			func(_ int, seen, id string) string {
				return "/v1/responses/" + last(seen[:strings.Index(seen, "\n\n")], `"response":{"id":"`) + "?stream=true&starting_after=" + id
			}},
	} {
		t.Run(name, func(t *testing.T) {
			const turns = 24
			gates := make([]chan struct{}, turns)
			script := make([]llmtest.Reply, turns)
			for i := range script {
				gates[i] = make(chan struct{})
				script[i] = llmtest.Reply{Deltas: []string{"One ", "two ", "three ", "four ", "five."}, Block: gates[i], BlockAfter: 7}
			}
			r := newRig(t, options{}, script...)
			for turn := range turns {
				post := func(cut int) string {
					text, _ := r.read(t, r.request(t, "POST", door.path, fmt.Sprintf(door.body, turn), "Idempotency-Key", fmt.Sprint(turn)), cut)
					return text
				}
				seen := complete(post(300 + turn*30))
				more := make(chan string, 1)
				back := func() {
					if id := last(seen, door.mark); id != "" {
						text, _ := r.read(t, r.request(t, "GET", door.goOn(turn, seen, id), ""), -1)
						more <- text
						return
					}
					more <- post(-1) // the same request again is the same turn
				}
				if turn%2 == 0 { // while the turn stands still, or when it has gone on
					go back()
					close(gates[turn])
				} else {
					close(gates[turn])
					back()
				}
				whole := post(-1)
				if assembled := seen + <-more; assembled != whole || !strings.Contains(whole, ".completed") {
					t.Fatalf("turn %d: assembled\n%s\nwant\n%s", turn, assembled, whole)
				}
			}
		})
	}
}
