package llm

import (
	"fmt"
	"strings"
	"testing"
)

func TestSharedItems(t *testing.T) {
	var shared sharedItems
	of := func(text string) message {
		return message{Type: "message", Role: "system", Content: []part{{Type: "input_text", Text: &text}}}
	}
	same := func(a, b []byte) bool { return &a[0] == &b[0] }
	for _, text := range []string{"You help.", strings.Repeat("x", sharedLongest)} {
		first, again := shared.encode(of(text)), shared.encode(of(text))
		if want := encode(of(text)); string(first) != string(want) || string(again) != string(want) {
			t.Errorf("items %.80s and %.80s, want %.80s", first, again, want)
		}
		if short := len(first) <= sharedLongest; same(first, again) != short {
			t.Errorf("an item of %d bytes is shared: %v", len(first), !short)
		}
	}
	for i := range 3 * sharedMost {
		item := shared.encode(of(fmt.Sprint(i)))
		if !strings.Contains(string(item), fmt.Sprintf(`"text":"%d"`, i)) {
			t.Fatalf("item %d is %s", i, item)
		}
		if len(shared.known) > sharedMost {
			t.Fatalf("%d items are kept", len(shared.known))
		}
	}
}
