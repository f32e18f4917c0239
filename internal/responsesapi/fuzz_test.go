package responsesapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// FuzzParseID holds the reader of response ids to its writer: what is read is what was
// written, in the one spelling that there is, and names nothing but a turn.
// It holds row S-17 of docs/security.md.
func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"", "resp_", "resp_AAAA", "resp_AAAAAAA", "resp_\r\n", "resp_" + strings.Repeat("A", 1000),
		responseID{"s", "t", 1}.String(), responseID{"s", "t", 1 << 20}.String(), responseID{"s", "t", 1}.String() + "=",
		responseID{"a/../b", "t", 1}.String(), responseID{"s", "t\x00", 1}.String(), responseID{"", "", 1}.String(), responseID{"s", "t", 0}.String()} {
		f.Add(seed, "s", "t", uint32(1))
	}
	f.Fuzz(func(t *testing.T, text, session, turn string, n uint32) {
		if id, ok := parseID(text); ok {
			if !agent.ValidID(string(id.session)) || !agent.ValidID(string(id.turn)) || id.n < 1 {
				t.Errorf("%q was read as %+v", text, id)
			}
			if id.String() != text {
				t.Errorf("%q is written %q", text, id)
			}
		}
		made := responseID{agent.SessionID(session), agent.TurnID(turn), int(n)}
		valid := agent.ValidID(session) && agent.ValidID(turn) && n >= 1 && n <= 1<<20
		if again, ok := parseID(made.String()); ok && again != made || ok != valid && len(session) < 256 {
			t.Errorf("%+v was read as %+v, %v", made, again, ok)
		}
	})
}

// FuzzReplay shows journals that nobody wrote: rows that decode, in any order. Each
// delivery of one is a response or an error, the same every time (reliability Z-1, S-15).
// The journal is a line for each step, its kind before its data.
func FuzzReplay(f *testing.F) {
	const answer = `{"response":{"kind":"final","mode":"general","primaryOutputText":"x"}}`
	for _, seed := range []string{
		"", `accepted {}`, `continued {"continued":{}}`, "continued {\"continued\":{}}\ncontinued {\"continued\":{}}",
		"accepted {\"accepted\":{\"door\":{\"model\":\"m\"}}}\nasked {\"asked\":{\"call\":1}}\nanswered {\"answered\":{\"call\":1,\"deltas\":[\"a\"]}}\nsettled {\"settled\":{\"state\":\"completed\"}}",
		"accepted {}\nwaiting {\"waiting\":{\"calls\":[{\"toolCallId\":\"c\",\"name\":\"n\"}]}}\ncontinued {\"continued\":{\"results\":[{\"toolCallId\":\"c\"}]}}\nsettled {\"settled\":{\"state\":\"failed\"}}",
		"accepted {}\nasked_user {\"askedUser\":{\"approvalId\":\"a\"}}\nwaiting {\"waiting\":{}}\ndecided {\"decided\":{}}",
		"settled {\"settled\":{\"state\":\"\\ud800\",\"fault\":null}}", "accepted {\"accepted\":{\"door\":[[[[[[]]]]]]}}", "accepted {}\nsettled " + answer,
	} {
		f.Add(seed, `{"kind":"final","primaryOutputText":"x"}`)
	}
	f.Fuzz(func(t *testing.T, journal, response string) {
		key := agent.TurnKey{Org: "o", Session: "s", Turn: "t"}
		var steps []agent.Step
		for line := range strings.SplitSeq(journal, "\n") {
			kind, data, _ := strings.Cut(line, " ")
			var items []byte
			if json.Valid([]byte(response)) && (kind == string(agent.StepWaiting) || kind == string(agent.StepSettled)) {
				items = []byte("\x1e" + response + "\n")
			}
			step, err := store.DecodeStep(agent.Step{N: len(steps) + 1, Kind: agent.StepKind(kind), FirstEvent: int64(len(steps) + 1)}, []byte(data), items)
			if err != nil {
				return // the store refuses the row
			}
			steps = append(steps, step)
		}
		for n := range deliveries(steps) + 1 {
			first, err := resourceOf(responseID{"s", "t", n + 1}, agent.Turn{Key: key}, steps)
			if err == nil && !json.Valid(first) {
				t.Errorf("response %d is %s", n+1, first)
			}
			again, err2 := resourceOf(responseID{"s", "t", n + 1}, agent.Turn{Key: key}, steps)
			if string(first) != string(again) || (err == nil) != (err2 == nil) {
				t.Errorf("response %d is %s, %v and then %s, %v", n+1, first, err, again, err2)
			}
		}
	})
}

func resourceOf(id responseID, turn agent.Turn, steps []agent.Step) (json.RawMessage, error) {
	v, err := deliveryOf(id, turn, steps)
	if err != nil {
		return nil, err
	}
	return v.resource()
}
