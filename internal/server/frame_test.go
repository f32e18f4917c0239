package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

// A piece of text is rendered on a way of its own, and must say what every other event
// would say in its place.
func TestTurnFrames_TextIsRenderedAsAllOthersAre(t *testing.T) {
	for _, text := range []string{
		"", "plain", `"quoted" \ and /`, "<b>&amp;</b>", "a\r\nb\tc\x00\x1f\x7f", "é ☃ 😀 \ufeff", "\u2028\u2029", "not UTF-8: \xff\xfe", strings.Repeat("x", 100_000),
	} {
		e := agent.Event{Type: agent.EventTextDelta, Sequence: 1<<53 - 1, SessionID: "s_1-a", TurnID: "t.1", Text: text}
		whole, err := marshal(eventData{Event: e})
		if err != nil {
			t.Fatal(err)
		}
		frame, end, err := turnFrames("req_1")([]byte("before "), e)
		if err != nil || end != goesOn {
			t.Errorf("%.20q: got %v, %v", text, end, err)
		}
		data, ok := strings.CutPrefix(string(frame), "before event: text.delta\nid: 9007199254740991\ndata: ")
		if !ok || !strings.HasSuffix(data, "\n\n") || strings.ContainsAny(strings.TrimSuffix(data, "\n\n"), "\r\n") {
			t.Fatalf("%.20q: got the frame %q", text, frame)
		}
		var got, want any
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Fatalf("%.20q: %v in %q", text, err, data)
		}
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.20q (-want +got):\n%s", text, diff)
		}
	}
}

func BenchmarkTurnFrames_Text(b *testing.B) {
	frame, buf := turnFrames("req_1"), []byte(nil)
	e := agent.Event{Type: agent.EventTextDelta, Sequence: 42, SessionID: "a_session", TurnID: "a_turn", Text: "A word or two."}
	for b.Loop() {
		buf, _, _ = frame(buf[:0], e)
	}
}
