package server

import (
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

// A piece of text is rendered as every other event is.
func TestAppendText(t *testing.T) {
	for _, text := range []string{"", "plain", "<b> \"é\"\n\u2028\x00 cut \xe2"} {
		e := agent.Event{Type: agent.EventTextDelta, Sequence: 12345, SessionID: "s.1", TurnID: "t-1", Text: text}
		data, err := marshal(eventData{Event: e})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("event: text.delta\nid: 12345\ndata: %s\n\n", data)
		if got := appendText(nil, e); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
