package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Overflows reports whether the provider turned a request down because it does not fit
// the model's context. Such a request made the model do nothing.
func Overflows(err error) bool {
	s := (*StatusError)(nil)
	if !errors.As(err, &s) || s.Status != http.StatusBadRequest && s.Status != http.StatusRequestEntityTooLarge && s.Status != http.StatusUnprocessableEntity {
		return false
	}
	if s.Code == "context_length_exceeded" {
		return true
	}
	said := strings.ToLower(s.Message)
	for _, words := range []string{"context length", "context size", "context window"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// Size is how many bytes items take.
func Size(items []json.RawMessage) int {
	n := 0
	for _, i := range items {
		n += len(i)
	}
	return n
}

// Shorten brings the items of a replayed transcript into room bytes where it can: it
// leaves out the oldest whole turns, so that no call is parted from its output, and
// puts one message in their place that says what was asked in them. What stands before
// the first turn stays, and so does the turn that goes on with the added items. It also
// returns how many turns are left out. A room of 0 is no bound. It is a pure function,
// so that a request can be put together again.
func Shorten(items, added []json.RawMessage, room int) (_ []json.RawMessage, leftOut int) {
	if room <= 0 || Size(items) <= room {
		return items, 0
	}
	var begins []int // of each turn: at the user's message
	for i, raw := range items {
		if isUser(raw) {
			begins = append(begins, i)
		}
	}
	most := len(begins)
	if !containsUser(added) {
		most-- // the last turn is not over
	}
	if most <= 0 {
		return items, 0
	}
	first, size := begins[0], Size(items)
	for leftOut < most && size > room {
		end := len(items)
		if leftOut+1 < len(begins) {
			end = begins[leftOut+1]
		}
		size -= Size(items[begins[leftOut]:end])
		leftOut++
	}
	rest := len(items)
	if leftOut < len(begins) {
		rest = begins[leftOut]
	}
	out := append([]json.RawMessage{}, items[:first]...)
	out = append(out, summary(items, begins[:leftOut]))
	return append(out, items[rest:]...), leftOut
}

func containsUser(items []json.RawMessage) bool {
	for _, raw := range items {
		if isUser(raw) {
			return true
		}
	}
	return false
}

// isUser reports whether an item is what the user said, which begins a turn.
func isUser(raw json.RawMessage) bool {
	if !bytes.Contains(raw, []byte(`"user"`)) || typeOf(raw) != itemMessage {
		return false
	}
	var m struct {
		Role string `json:"role"`
	}
	return json.Unmarshal(raw, &m) == nil && m.Role == "user"
}

// The summary has a line for each turn that is left out, and room for so many.
const (
	summaryLine  = 160 // characters
	summaryLines = 40
)

// summary is the message that stands for the turns that begin at these items.
func summary(items []json.RawMessage, turns []int) json.RawMessage {
	var b strings.Builder
	fmt.Fprintf(&b, "[EARLIER TURNS]\n%d earlier turns of this conversation are left out, because it no longer fits. What was asked in them, the oldest first:\n", len(turns))
	if n := len(turns) - summaryLines; n > 0 {
		fmt.Fprintf(&b, "- (%d turns before these)\n", n)
		turns = turns[n:]
	}
	for _, at := range turns {
		fmt.Fprintf(&b, "- %s\n", askedIn(items[at]))
	}
	text := b.String()
	return encode(message{Type: itemMessage, Role: "user", Content: []part{{Type: "input_text", Text: &text}}})
}

// askedIn returns the beginning of a user message's instruction, in one line.
func askedIn(raw json.RawMessage) string {
	var m struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &m) != nil || len(m.Content) == 0 {
		return "(no text)"
	}
	text := m.Content[0].Text
	if _, said, ok := strings.Cut(text, "[INSTRUCTION]\n"); ok {
		text = said
	}
	runes := []rune(strings.Join(strings.Fields(text), " "))
	switch {
	case len(runes) == 0:
		return "(no text)"
	case len(runes) > summaryLine:
		return string(runes[:summaryLine-1]) + "…"
	}
	return string(runes)
}
