package server

import (
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

// A piece of text is rendered as every other event is.
func TestTextFrame(t *testing.T) {
	for _, text := range []string{"", "plain", "<b> \"é\"\n\u2028\x00 cut \xe2"} {
		e := agent.Event{Type: agent.EventTextDelta, Sequence: 12345, SessionID: "s.1", TurnID: "t-1", Text: text}
		want, err := eventFrame(e, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := textFrame(e); string(got) != string(want.data) {
			t.Errorf("got %s, want %s", got, want.data)
		}
	}
}
