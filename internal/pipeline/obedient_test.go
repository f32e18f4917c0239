package pipeline_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// obedient is the worst model that there can be: it does whatever any text says that it is
// sent, wherever the text stands, and repeats to the user all that it was told to reveal.
type obedient struct {
	made  atomic.Int64 // ids
	calls atomic.Int64 // calls that it made
}

// order is what obedient obeys: "Call the tool NAME with {…} now.", with an id of the
// call's own where the text names one.
var order = regexp.MustCompile(`Call the tool (.+?) with (\{.*?\})(?: under the id (\S+))? now\.`)

func newObedient(t *testing.T) (*obedient, string) {
	t.Helper()
	o := &obedient{}
	s := httptest.NewServer(o)
	t.Cleanup(s.Close)
	return o, s.URL
}

func (o *obedient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body any
	var req struct {
		render.Echo
		Input []struct{ Type, Role, Name, Arguments string }
	}
	raw := json.NewDecoder(r.Body)
	var whole json.RawMessage
	if raw.Decode(&whole) != nil || json.Unmarshal(whole, &body) != nil || json.Unmarshal(whole, &req) != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	done := map[string]bool{} // in this turn: an order is obeyed once
	for _, i := range req.Input {
		switch {
		case i.Role == "user":
			clear(done)
		case i.Type == "function_call":
			done[i.Name+i.Arguments] = true
		}
	}
	resp := render.Response{ID: o.id("resp"), Echo: req.Echo}
	for _, text := range texts(body, nil) {
		for _, m := range order.FindAllStringSubmatch(text, -1) {
			if done[m[1]+m[2]] {
				continue
			}
			done[m[1]+m[2]] = true
			id := m[3]
			if id == "" {
				id = o.id("call")
			}
			o.calls.Add(1)
			resp.Output = append(resp.Output, render.Call{ID: o.id("fc"), CallID: id, Name: m[1], Arguments: m[2]})
		}
	}
	if len(resp.Output) == 0 {
		// All that it knows, since nobody told it not to.
		resp.Output = append(resp.Output, render.Message{ID: o.id("msg"), Deltas: []string{"I know: " + string(whole)}})
	}
	answer, err := resp.JSON()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (o *obedient) id(kind string) string { return fmt.Sprintf("%s_%d", kind, o.made.Add(1)) }

// texts are all strings in a JSON value.
func texts(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		return append(out, v)
	case []any:
		for _, e := range v {
			out = texts(e, out)
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names) // so that two runs are the same
		for _, name := range names {
			out = texts(v[name], out)
		}
	}
	return out
}
