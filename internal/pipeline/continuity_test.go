package pipeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
)

// conversationTurns is how long the conversation is that must come out the same
// whatever the provider remembers.
const conversationTurns = 30

// told is what a conversation left behind.
type told struct {
	Answers []string
	Session string
	// Heard is what stood before the model at each call that it answered.
	Heard [][]string
	// sent counts the requests, those that were refused too.
	sent int
}

// TestContinuity_ThirtyTurns holds one conversation with server tools, client tools
// and mode changes three times: where the provider remembers, where the transcript is
// replayed, and where it forgets at random. Decision 29: the outcome is the same.
func TestContinuity_ThirtyTurns(t *testing.T) {
	remembers := converse(t, true, func(*llmtest.Server) {})
	if got := remembers.sent; got != len(remembers.Heard) {
		t.Errorf("a provider that remembers got %d requests and answered %d", got, len(remembers.Heard))
	}
	t.Run("replay", func(t *testing.T) {
		replayed := converse(t, false, func(*llmtest.Server) {})
		if diff := difference(remembers, replayed, cmp.AllowUnexported(told{})); diff != "" {
			t.Errorf("-provider +replay\n%s", diff)
		}
	})
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("forgets at random, seed %d", seed), func(t *testing.T) {
			// A third of the calls is followed by oblivion.
			chance, lost := rand.New(rand.NewPCG(seed, 0)), 0
			forgets := converse(t, true, func(s *llmtest.Server) {
				if chance.IntN(3) == 0 {
					s.Forget()
					lost++
				}
			})
			refused := forgets.sent - len(forgets.Heard)
			t.Logf("%d requests, %d of them refused for an id that was lost", forgets.sent, refused)
			if lost == 0 || refused == 0 {
				t.Errorf("the provider forgot %d times and refused %d requests: nothing was shown", lost, refused)
			}
			forgets.sent = remembers.sent
			if diff := difference(remembers, forgets, cmp.AllowUnexported(told{})); diff != "" {
				t.Errorf("-remembers +forgets\n%s", diff)
			}
		})
	}
}

// converse holds the conversation; after runs behind every call of the model.
func converse(t *testing.T, chain bool, after func(*llmtest.Server)) told {
	t.Helper()
	provider := llmtest.New(t)
	var once sync.Mutex
	provider.Otherwise(func(request []byte) llmtest.Reply {
		once.Lock()
		defer once.Unlock()
		after(provider)
		return nextLine(t, request)
	})
	r := newRig(t, func(r *rig) {
		r.provider, r.chain = provider, chain
		r.model = llm.NewProvider(llm.ProviderConfig{Client: llm.New(llm.Config{BaseURL: provider.URL})})
	})
	ctx := t.Context()
	if _, err := r.sessions.Create(ctx, caller, contract.CreateSession{SessionID: "s1", Tools: json.RawMessage(readFile)}); err != nil {
		t.Fatal(err)
	}
	var out told
	for n := 1; n <= conversationTurns; n++ {
		stream := n%2 == 0
		key, _, err := r.pipeline.Submit(ctx, caller, contract.UserTurn{SessionID: "s1", TurnID: agent.TurnID(fmt.Sprintf("t%d", n)),
			Instruction: fmt.Sprintf("This is turn %d.", n), Stream: &stream})
		if err != nil {
			t.Fatal(err)
		}
		turn := r.await(key)
		for turn.State == agent.TurnWaiting {
			var asked struct{ ToolCalls []agent.ToolCall }
			if err := json.Unmarshal(turn.Response, &asked); err != nil || len(asked.ToolCalls) == 0 {
				t.Fatalf("turn %d waits for nothing: %s (%v)", n, turn.Response, err)
			}
			out.Answers = append(out.Answers, indent(turn.Response))
			c := contract.ToolContinuation{SessionID: "s1", TurnID: key.Turn}
			for _, call := range asked.ToolCalls {
				content := fmt.Sprintf(`{"text":"what %s holds"}`, call.ID)
				c.ToolResults = append(c.ToolResults, contract.ToolResult{ToolCallID: call.ID, ExecutionMs: 3, ResultJSON: &content})
			}
			if key, _, _, err = r.pipeline.Continue(ctx, caller, c); err != nil {
				t.Fatal(err)
			}
			turn = r.await(key)
		}
		if turn.State != agent.TurnCompleted {
			t.Fatalf("turn %d is %s: %+v", n, turn.State, turn.Fault)
		}
		out.Answers = append(out.Answers, indent(turn.Response))
		checkRequests(t, r, key)
	}
	sc := &scenario{rig: r, session: "s1"}
	out.Session = sc.describeSession()
	turns, _, err := r.store.Turns(ctx, caller.Org, "s1", store.Page{Limit: 100})
	if err != nil || len(turns) != conversationTurns {
		t.Errorf("%d turns (%v), want %d", len(turns), err, conversationTurns)
	}
	for _, turn := range turns {
		sc.turns = append(sc.turns, turn.Key.Turn)
	}
	sc.verify()
	for _, items := range provider.Heard() {
		var heard []string
		for _, item := range items {
			heard = append(heard, string(item))
		}
		out.Heard = append(out.Heard, heard)
	}
	out.sent = len(provider.Requests())
	return out
}

// nextLine is the model of the conversation: it calls tools in some turns, and
// answers from the newest items alone.
func nextLine(t *testing.T, request []byte) llmtest.Reply {
	var r struct {
		Input []struct {
			Type   string
			Role   string
			CallID string `json:"call_id"`
			Output string
			// Content is a text for some roles and a list of parts for others.
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(request, &r); err != nil || len(r.Input) == 0 {
		t.Errorf("model request: %v\n%s", err, request)
		return llmtest.Reply{Text: "I heard nothing."}
	}
	usage := agent.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}
	last := r.Input[len(r.Input)-1]
	if last.Type == "function_call_output" {
		n, step := 0, 0
		if _, err := fmt.Sscanf(last.CallID, "call_t%d_%d", &n, &step); err != nil {
			t.Errorf("call id %q: %v", last.CallID, err)
		}
		if step == 1 && n%6 == 0 { // a second round, of another kind of tool
			return llmtest.Reply{Calls: []llmtest.Call{{ID: fmt.Sprintf("call_t%d_2", n), Name: "read_file", Arguments: `{"path":"b.txt"}`}}, Usage: usage}
		}
		return llmtest.Reply{Text: fmt.Sprintf("Turn %d, told %d bytes.", n, len(last.Output)), Usage: usage}
	}
	n := 0
	said := string(last.Content)
	if _, err := fmt.Sscanf(said[strings.LastIndex(said, "This is turn "):], "This is turn %d.", &n); err != nil {
		t.Errorf("user message %s: %v", said, err)
	}
	id := fmt.Sprintf("call_t%d_1", n)
	switch {
	case n%10 == 4:
		return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: "agent_change_mode", Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"decide"}`}}, Usage: usage}
	case n%10 == 8:
		return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: "agent_change_mode", Arguments: `{"mode":"general","branch":false,"reason":"done"}`}}, Usage: usage}
	case n%3 == 0:
		return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: "agent_list_modes"}}, Usage: usage}
	case n%5 == 0:
		return llmtest.Reply{Text: "I look.", Calls: []llmtest.Call{{ID: id, Name: "read_file", Arguments: `{"path":"a.txt"}`}}, Usage: usage}
	}
	return llmtest.Reply{Text: fmt.Sprintf("Turn %d, without tools.", n), Usage: usage}
}

// checkRequests holds what is read back of a turn's requests to what the provider got.
func checkRequests(t *testing.T, r *rig, key agent.TurnKey) {
	t.Helper()
	calls, err := r.pipeline.Requests(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got := r.provider.Requests()
	for i, c := range calls {
		if c.Wire != string(got[len(got)-len(calls)+i]) {
			t.Errorf("turn %s: request %d is read back as\n%s\nbut was\n%s", key, c.N, c.Wire, got[len(got)-len(calls)+i])
		}
	}
}

// TestContinuity_RefusalsOfOtherProviders shows that each way in which a server says
// that it does not know a response leads to the transcript, once, and that no other
// refusal does.
func TestContinuity_RefusalsOfOtherProviders(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		replays    bool
	}{
		{"OpenAI", `{"error":{"message":"Previous response with id 'resp_1' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`, 400, true},
		{"vLLM", `{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,"code":404}}`, 404, true},
		{"llama.cpp", `{"error":{"message":"llama.cpp does not support 'previous_response_id'.","type":"invalid_request_error","code":400}}`, 400, true},
		{"a validator", `{"error":{"message":"unsupported parameter","param":"previous_response_id"}}`, 422, true},
		{"another parameter", `{"error":{"message":"unknown model","param":"model","code":"model_not_found"}}`, 404, false},
		{"a page", `<html>not found</html>`, 404, false},
		{"no access", `{"error":{"message":"previous_response_id of another organisation"}}`, 403, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			provider := llmtest.New(t, llmtest.Reply{Text: "One."},
				llmtest.Reply{Status: tt.status, Body: tt.body, Headers: map[string]string{"Content-Type": "application/json"}},
				llmtest.Reply{Text: "Two."})
			r := newRig(t, func(r *rig) { r.provider, r.chain = provider, true })
			ctx := t.Context()
			var last agent.Turn
			for _, id := range []agent.TurnID{"t1", "t2"} {
				key, _, err := r.pipeline.Submit(ctx, caller, contract.UserTurn{SessionID: "s1", TurnID: id, Instruction: "Say a number."})
				if err != nil {
					t.Fatal(err)
				}
				last = r.await(key)
			}
			requests := provider.Requests()
			if !tt.replays {
				if last.State != agent.TurnFailed || len(requests) != 2 {
					t.Errorf("the turn is %s after %d requests, want failed after 2", last.State, len(requests))
				}
				return
			}
			if last.State != agent.TurnCompleted || len(requests) != 3 {
				t.Fatalf("the turn is %s after %d requests (%+v), want completed after 3", last.State, len(requests), last.Fault)
			}
			var sent struct {
				Previous *string `json:"previous_response_id"`
				Store    bool
				Input    []json.RawMessage
			}
			if err := json.Unmarshal(requests[2], &sent); err != nil {
				t.Fatal(err)
			}
			if sent.Previous != nil || !sent.Store || len(sent.Input) != 4 {
				t.Errorf("the transcript is sent as\n%s", requests[2])
			}
			checkRequests(t, r, last.Key)
		})
	}
}

// TestContinuity_CrashAfterTheProviderForgot kills the server between the refusal and
// the answer: the next start sends the journalled transcript, not the first request.
func TestContinuity_CrashAfterTheProviderForgot(t *testing.T) {
	hold := make(chan struct{})
	provider := llmtest.New(t, llmtest.Reply{Text: "One."},
		llmtest.Reply{Status: http.StatusNotFound, Body: `{"error":{"message":"Response with id 'resp_1' not found."}}`,
			Headers: map[string]string{"Content-Type": "application/json"}},
		llmtest.Reply{Text: "Never heard.", Block: hold},
		llmtest.Reply{Text: "Two."})
	r := newRig(t, func(r *rig) { r.provider, r.chain = provider, true })
	ctx := t.Context()
	for i, id := range []agent.TurnID{"t1", "t2"} {
		if _, _, err := r.pipeline.Submit(ctx, caller, contract.UserTurn{SessionID: "s1", TurnID: id, Instruction: "Say a number."}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			r.await(agent.TurnKey{Org: caller.Org, Session: "s1", Turn: id})
		}
	}
	if err := provider.Await(ctx, 3); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	close(hold)
	r.restart()
	key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t2"}
	if turn := r.await(key); turn.State != agent.TurnCompleted || !strings.Contains(string(turn.Response), "Two.") {
		t.Fatalf("the turn is %s: %s", turn.State, turn.Response)
	}
	requests := provider.Requests()
	if len(requests) != 4 || !bytes.Equal(requests[2], requests[3]) {
		t.Errorf("%d requests; the one after the restart is not the one before", len(requests))
	}
	calls, err := r.pipeline.Requests(ctx, key)
	if err != nil || len(calls) != 2 || calls[1].Wire != string(requests[3]) {
		t.Errorf("%d requests are read back (%v)", len(calls), err)
	}
}

// TestContinuity_SwitchedBetweenRestarts moves a session from replaying to chaining
// and back: the provider has stored nothing of the first turn.
func TestContinuity_SwitchedBetweenRestarts(t *testing.T) {
	provider := llmtest.New(t, llmtest.Reply{Text: "One."}, llmtest.Reply{Text: "Two."}, llmtest.Reply{Text: "Three."}, llmtest.Reply{Text: "Four."})
	r := newRig(t, func(r *rig) { r.provider = provider })
	for i, chain := range []bool{false, true, true, false} {
		r.stop()
		r.chain = chain
		r.start()
		key, _, err := r.pipeline.Submit(t.Context(), caller, contract.UserTurn{SessionID: "s1", TurnID: agent.TurnID(fmt.Sprintf("t%d", i)), Instruction: "Say a number."})
		if err != nil {
			t.Fatal(err)
		}
		if turn := r.await(key); turn.State != agent.TurnCompleted {
			t.Fatalf("turn %d with chaining %t is %s: %+v", i, chain, turn.State, turn.Fault)
		}
		checkRequests(t, r, key)
	}
	if n := len(provider.Requests()); n != 5 {
		t.Errorf("%d requests, want 4 and the one that was refused", n)
	}
	// The system message and then, turn by turn, what was said and answered.
	for i, heard := range provider.Heard() {
		if want := 2 + 2*i; len(heard) != want {
			t.Errorf("the model heard %d items before answer %d, want %d: %s", len(heard), i+1, want, heard)
		}
	}
}

// TestContinuity_LongerThanTheModel goes on with a session that has outgrown its model:
// the oldest whole turns are left out, the user is told, and no call loses its output.
func TestContinuity_LongerThanTheModel(t *testing.T) {
	const window = 12 << 10 // bytes of input items, of everything that the model hears
	for _, chain := range []bool{true, false} {
		t.Run(fmt.Sprintf("chain %t", chain), func(t *testing.T) {
			provider := llmtest.New(t)
			provider.Otherwise(func(request []byte) llmtest.Reply {
				heard := provider.Heard()
				if llm.Size(heard[len(heard)-1]) > window {
					return llmtest.Reply{Status: http.StatusBadRequest, Headers: map[string]string{"Content-Type": "application/json"},
						Body: `{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded","param":"input"}}`}
				}
				return nextLine(t, request)
			})
			r := newRig(t, func(r *rig) { r.provider, r.chain = provider, chain })
			r.createWithTools("s1")
			told := 0
			for n := 1; n <= 14; n++ {
				key, _, err := r.pipeline.Submit(t.Context(), caller, contract.UserTurn{SessionID: "s1", TurnID: agent.TurnID(fmt.Sprintf("t%d", n)),
					Instruction: fmt.Sprintf("This is turn %d. %s", n, strings.Repeat("Blah. ", 200))})
				if err != nil {
					t.Fatal(err)
				}
				turn := r.await(key)
				for turn.State == agent.TurnWaiting {
					var asked struct{ ToolCalls []agent.ToolCall }
					if err := json.Unmarshal(turn.Response, &asked); err != nil {
						t.Fatal(err)
					}
					if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", string(key.Turn), string(asked.ToolCalls[0].ID))); err != nil {
						t.Fatal(err)
					}
					turn = r.await(key)
				}
				if turn.State != agent.TurnCompleted {
					t.Fatalf("turn %d is %s: %+v", n, turn.State, turn.Fault)
				}
				checkRequests(t, r, key)
				if strings.Contains(string(turn.Response), "oldest turns were left out") {
					told++
				}
			}
			heard := provider.Heard()
			last := heard[len(heard)-1]
			if llm.Size(last) > window {
				t.Errorf("the model answered %d bytes, it takes %d", llm.Size(last), window)
			}
			summaries := 0
			for _, items := range heard {
				if len(items) > 1 && strings.Contains(string(items[1]), "[EARLIER TURNS]") && strings.Contains(string(items[1]), "- This is turn 1. Blah.") {
					summaries++
				}
			}
			t.Logf("%d requests, the user was told in %d turns", len(provider.Requests()), told)
			if told == 0 || summaries == 0 {
				t.Errorf("the user was told in %d turns, the model read %d summaries; want both", told, summaries)
			}
		})
	}
}

// A turn that is too long for the model by itself fails with the provider's own word,
// and is not sent for ever.
func TestContinuity_OneTurnLongerThanTheModel(t *testing.T) {
	provider := llmtest.New(t, llmtest.Reply{Text: "One."})
	provider.Otherwise(func([]byte) llmtest.Reply {
		return llmtest.Reply{Status: http.StatusBadRequest, Headers: map[string]string{"Content-Type": "application/json"},
			Body: `{"error":{"message":"maximum context length is 10 tokens"}}`}
	})
	r := newRig(t, func(r *rig) { r.provider, r.chain = provider, true })
	for i, want := range []agent.TurnState{agent.TurnCompleted, agent.TurnFailed} {
		key, _, err := r.pipeline.Submit(t.Context(), caller, contract.UserTurn{SessionID: "s1", TurnID: agent.TurnID(fmt.Sprintf("t%d", i)), Instruction: "Say a number."})
		if err != nil {
			t.Fatal(err)
		}
		turn := r.await(key)
		if turn.State != want {
			t.Errorf("turn %d is %s (%+v), want %s", i, turn.State, turn.Fault, want)
		}
		if want == agent.TurnFailed && !strings.Contains(turn.Fault.Message, "maximum context length") {
			t.Errorf("the fault is %+v", turn.Fault)
		}
	}
	if n := len(provider.Requests()); n != 3 { // one for each turn, and one without the first turn
		t.Errorf("%d requests, want 3", n)
	}
}
