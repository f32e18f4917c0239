package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// plans are what a turn can be made of: at each step the calls of the model, and none
// at the last, which is the answer.
var plans = map[string][][]string{
	"talk":   {{}},
	"quick":  {{}},
	"long":   {{}},
	"write":  {{"ledger_append"}, {}},
	"twice":  {{"ledger_append", "ledger_repeat"}, {"ledger_append"}, {}},
	"wrong":  {{"no_such_tool"}, {}},
	"switch": {{"agent_change_mode"}, {}},
	"client": {{"read_file"}, {}},
	"ask":    {{"ledger_ask"}, {}},
	"asks":   {{"ledger_append", "ledger_ask", "ledger_repeat", "ledger_ask", "read_file"}, {}},
	"mixed":  {{"ledger_append"}, {"agent_change_mode"}, {"ledger_append", "read_file"}, {"ledger_repeat"}, {}},
}

// provider is a model that follows the plan which the instruction names. It outlives the
// server, forgets nothing and needs no memory: the plan and its step are in the ids of
// the calls.
type provider struct {
	made atomic.Int64 // ids
	asks atomic.Int64
}

var (
	planOf = regexp.MustCompile(`plan=(\w+)`)
	stepOf = regexp.MustCompile(`^c-(\w+)-(\d+)-`)
)

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asks.Add(1)
	var req struct {
		render.Echo
		Input []struct {
			Type, Role string
			CallID     string `json:"call_id"`
			Content    json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Input) == 0 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	plan, step := "talk", 0
	for _, i := range req.Input { // the last one that says something counts
		if m := stepOf.FindStringSubmatch(i.CallID); i.Type == "function_call_output" && m != nil {
			n, _ := strconv.Atoi(m[2])
			plan, step = m[1], n+1
		}
		if m := planOf.FindSubmatch(i.Content); i.Role == "user" && m != nil {
			plan, step = string(m[1]), 0
		}
	}
	pause, text := pause, "All of the plan "+plan+" is done now, as you asked."
	switch plan {
	case "quick":
		pause = func() {}
	case "long": // some seconds
		pause, text = func() { time.Sleep(100 * time.Millisecond) }, strings.Repeat("and so on ", 10)
	}
	resp := render.Response{ID: p.id("resp"), Echo: req.Echo, Usage: agent.Usage{InputTokens: 7, OutputTokens: 3, TotalTokens: 10}}
	calls := plans[plan][min(step, len(plans[plan])-1)]
	if len(calls) == 0 {
		resp.Output = append(resp.Output, render.Message{ID: p.id("msg"), Deltas: strings.SplitAfter(text, " ")})
	}
	for _, name := range calls {
		arguments := "{}"
		if name == "agent_change_mode" {
			arguments = fmt.Sprintf(`{"mode":%q,"branch":false,"reason":"the plan"}`, []string{"general", "other"}[p.made.Load()%2])
		}
		resp.Output = append(resp.Output, render.Call{ID: p.id("fc"), CallID: fmt.Sprintf("c-%s-%d-%s", plan, step, p.id("x")), Name: name, Arguments: arguments})
	}
	if !req.Streams() {
		body, err := resp.JSON()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pause()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return
	}
	events, err := resp.Events()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		pause()
		if _, err := w.Write(e.SSE()); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

func (p *provider) id(kind string) string { return fmt.Sprintf("%s_%d", kind, p.made.Add(1)) }

// pause spreads a turn over some milliseconds, so that there is time to die in it. Some
// answers come at once.
func pause() {
	if rand.IntN(3) == 0 {
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	}
}
