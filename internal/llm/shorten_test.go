package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/llm"
)

// TestShorten_LeavesOutWholeTurns cuts a transcript to every size: what goes are the
// oldest turns, whole, and what stays is as it was.
func TestShorten_LeavesOutWholeTurns(t *testing.T) {
	raw := func(format string, args ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, args...)) }
	user := func(n int) json.RawMessage {
		return raw(`{"type":"message","role":"user","content":[{"type":"input_text","text":"[MODE: m]\n\n[INSTRUCTION]\nDo\n%d %s"}]}`, n, strings.Repeat("x", 300))
	}
	system := raw(`{"type":"message","role":"system","content":[{"type":"input_text","text":"You are \"user\"."}]}`)
	items := []json.RawMessage{system}
	var begins []int
	for n := 1; n <= 4; n++ {
		begins = append(begins, len(items))
		items = append(items, user(n),
			raw(`{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`, n),
			raw(`{"type":"function_call_output","call_id":"c%d","output":"1"}`, n),
			raw(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Did %d."}]}`, n))
	}
	output := []json.RawMessage{raw(`{"type":"function_call_output","call_id":"c9","output":"1"}`)}
	for _, added := range [][]json.RawMessage{{user(9)}, output} {
		most := 4
		if &added[0] == &output[0] {
			most = 3
		}
		before := 0
		for room := llm.Size(items) + 1; room > 0; room -= 13 {
			got, left := llm.Shorten(items, added, room)
			if left < before || left > most {
				t.Fatalf("in %d bytes %d turns are left out, in one more %d; at most %d may go", room, left, before, most)
			}
			before = left
			if left == 0 {
				want(t, got, items)
				continue
			}
			rest := items[len(items):]
			if left < 4 {
				rest = items[begins[left]:]
			}
			want(t, got[0], system)
			want(t, got[2:], append([]json.RawMessage{}, rest...))
			said := string(got[1])
			for n := 1; n <= 4; n++ {
				if line := fmt.Sprintf(`\n- Do %d xxx`, n); strings.Contains(said, line) != (n <= left) {
					t.Fatalf("%d turns are left out, and the summary is %s", left, said)
				}
			}
			if left < most && llm.Size(rest)+llm.Size(got[:1]) > room {
				t.Fatalf("%d bytes stay in a room of %d though more could go", llm.Size(rest), room)
			}
		}
		want(t, before, most)
	}
	got, left := llm.Shorten(items, output, 0)
	want(t, left, 0)
	want(t, got, items)
}
