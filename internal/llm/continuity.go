package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// Forgotten reports whether the provider turned a request down because of the
// response that it continues: it has lost that response, or cannot continue from any
// (decision 29). Every provider says it in its own words. What they share is the
// status, and that the refusal names the member or the id. Such a request made the
// model do nothing.
func Forgotten(err error, previousResponseID string) bool {
	s := (*StatusError)(nil)
	if previousResponseID == "" || !errors.As(err, &s) {
		return false
	}
	switch s.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
	default:
		return false
	}
	for _, said := range []string{s.Code, s.Param, s.Message} {
		said = strings.ReplaceAll(strings.ToLower(said), " ", "_")
		if strings.Contains(said, "previous_response") {
			return true
		}
	}
	return strings.Contains(s.Message, previousResponseID)
}

// PreviousResponseID returns the response that a request continues, by its Head and
// Tail; empty when it continues none.
func PreviousResponseID(head, tail string) string {
	var r struct {
		PreviousResponseID string `json:"previous_response_id"`
	}
	if json.Unmarshal([]byte(head+tail), &r) != nil {
		return "" // not made by BuildWire
	}
	return r.PreviousResponseID
}

// Unchained returns the Head of the same request without the response that it
// continues. Its History goes with it then.
func Unchained(head, previousResponseID string) string {
	// Nothing that a client wrote stands before this member, so the first is the one.
	return strings.Replace(head, `"previous_response_id":`+string(encode(previousResponseID))+",", "", 1)
}

// Replayable returns the items of a transcript that can be sent again. All can, byte
// for byte, but for reasoning of which only a reference into the provider's memory was
// handed out: where the transcript is replayed there is no such memory.
func Replayable(transcript []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(transcript))
	for _, raw := range transcript {
		if !reference(raw) {
			out = append(out, raw)
		}
	}
	return out
}

// reference reports whether an item is reasoning without any content of its own.
func reference(raw json.RawMessage) bool {
	// The word is looked for first: most items are not worth parsing.
	if !bytes.Contains(raw, []byte(itemReasoning)) || typeOf(raw) != itemReasoning {
		return false
	}
	var r struct {
		Encrypted string            `json:"encrypted_content"`
		Content   []json.RawMessage `json:"content"`
	}
	return json.Unmarshal(raw, &r) == nil && r.Encrypted == "" && len(r.Content) == 0
}
