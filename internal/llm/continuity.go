package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
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

// Unchained returns the Head and the Tail of the same request without the response that
// it continues. Its History goes with it then.
func Unchained(head, tail, previousResponseID string) (string, string) {
	member := `"previous_response_id":` + string(encode(previousResponseID))
	if tail != bareTail {
		return head, strings.Replace(tail, ","+member, "", 1)
	}
	// A request of an earlier release. Nothing that a client wrote stands before this
	// member, so the first is the one.
	return strings.Replace(head, member+",", "", 1), tail
}

// Replay returns the items of a transcript as they are sent again before the items
// that a request adds, byte for byte but for what would make the provider refuse them
// all:
//
//   - Reasoning of which only a reference into the provider's memory was handed out is
//     left out: where the transcript is replayed there is no such memory.
//   - A call without its output, as a damaged journal may have it, gets one that says
//     so. An output without its call is left out.
//
// The first whole items are known to be whole (see Whole) and not looked at again. What
// is returned may share the transcript's array and must not be changed. It is a pure
// function, so that a request can be put together again.
func Replay(transcript []json.RawMessage, whole int, added []json.RawMessage) []json.RawMessage {
	whole = min(whole, len(transcript))
	out, _, open := replay(transcript[:whole:whole], transcript[whole:], false)
	if len(open) == 0 {
		return out
	}
	answered := map[string]bool{}
	for _, raw := range added {
		if i, kind := replayed(raw); kind == itemFunctionOutput {
			answered[i.CallID] = true
		}
	}
	lost := slices.DeleteFunc(open, func(id string) bool { return answered[id] })
	return closeCalls(out, lost)
}

// replay appends the items that are sent again to out. Outputs without a call are left out,
// unless orphans are wanted, and told of. open are the calls that have no output, in their
// order.
func replay(out, items []json.RawMessage, orphans bool) (_ []json.RawMessage, orphaned bool, open []string) {
	out = slices.Grow(out, len(items))
	for _, raw := range items {
		switch i, kind := replayed(raw); {
		case kind == itemReasoning && i.Encrypted == "" && len(i.Content) == 0:
			continue
		case kind == itemFunctionCall:
			open = append(open, i.CallID)
		case kind == itemFunctionOutput:
			n := slices.Index(open, i.CallID)
			if n >= 0 {
				open = slices.Delete(open, n, n+1)
				break
			}
			if orphaned = true; !orphans {
				continue
			}
		}
		out = append(out, raw)
	}
	return out, orphaned, open
}

// Whole returns the items of turns that are over without what Replay leaves out of every
// transcript, references to reasoning, and reports whether they are whole: whether each
// output has its call before it and each call its output. Behind whole items Replay sends
// whole items as they are, whatever comes after them.
func Whole(items []json.RawMessage) (_ []json.RawMessage, whole bool) {
	kept, orphaned, open := replay(nil, items, true)
	return kept, !orphaned && len(open) == 0
}

// closeCalls puts an output behind each of the calls.
func closeCalls(items []json.RawMessage, calls []string) []json.RawMessage {
	if len(calls) == 0 {
		return items
	}
	var out []json.RawMessage
	for _, raw := range items {
		out = append(out, raw)
		if i, kind := replayed(raw); kind == itemFunctionCall && slices.Contains(calls, i.CallID) {
			out = append(out, encode(functionOutput{Type: itemFunctionOutput, CallID: i.CallID,
				Output: output(agent.ToolResult{Err: "The outcome of this call is unknown: its result was lost."})}))
		}
	}
	return out
}

// replayedItem is what decides whether an item is sent again.
type replayedItem struct {
	CallID    string            `json:"call_id"`
	Encrypted string            `json:"encrypted_content"`
	Content   []json.RawMessage `json:"content"`
}

// replayed reads an item, whose kind is empty when it is sent again in any case.
func replayed(raw json.RawMessage) (i replayedItem, kind string) {
	// The words are looked for first: most items are not worth parsing.
	if !bytes.Contains(raw, []byte(itemReasoning)) && !bytes.Contains(raw, []byte(itemFunctionCall)) {
		return i, ""
	}
	switch kind = typeOf(raw); kind {
	case itemReasoning, itemFunctionCall, itemFunctionOutput:
		if json.Unmarshal(raw, &i) == nil {
			return i, kind
		}
	}
	return replayedItem{}, ""
}
