package responsesapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/responsesapi"
)

var local = agent.Caller{Org: "local", User: "local"}

// scripted are turns of which only one exists: its journal, and what a follower sees.
type scripted struct {
	unscripted
	steps  []agent.Step
	follow []agent.Event
}

type unscripted = responsesapi.Turns

func (s scripted) Turn(_ context.Context, key agent.TurnKey) (agent.Turn, error) {
	return agent.Turn{Key: key, State: agent.TurnCompleted, Mode: "general"}, nil
}

func (s scripted) Steps(context.Context, agent.TurnKey) ([]agent.Step, error) { return s.steps, nil }

func (s scripted) ReaderThrough(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	log := events.NewHub().Open(key, 1)
	log.Append(s.follow...)
	log.Close()
	return log.Reader(after)
}

type nothing struct{}

func (nothing) Get(context.Context, agent.Caller, agent.SessionID) (agent.Session, error) {
	return agent.Session{}, agent.Errorf(agent.KindNotFound, "none")
}
func (nothing) Reserved(string) bool { return false }
func (nothing) Names() []string      { return nil }

// A reader that saw text which a broken-off run had shown and never journalled must
// not be told that the response it put together is the whole one.
func TestFollow_TextThatDidNotHappenCutsTheStream(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	steps := []agent.Step{
		{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, At: at, Accepted: &agent.Accepted{}},
		{N: 2, Kind: agent.StepResumed, FirstEvent: 2, At: at, Resumed: &agent.Resumed{ReplaceFrom: 2}},
		{N: 3, Kind: agent.StepAnswered, FirstEvent: 3, At: at, Answered: &agent.Answered{Deltas: []string{"Whole."}}},
		{N: 4, Kind: agent.StepSettled, FirstEvent: 4, At: at, Settled: &agent.Settled{State: agent.TurnCompleted, Response: json.RawMessage(`{"mode":"general"}`)}},
	}
	var pure []agent.Event
	for _, s := range steps {
		pure = append(pure, s.Events(agent.TurnKey{Session: "s", Turn: "t"})...)
	}
	void := append([]agent.Event{pure[0], {Type: agent.EventTextDelta, Sequence: 2, Text: "Ha"}}, pure[1:]...)
	for _, tt := range []struct {
		name   string
		follow []agent.Event
		ok     bool
	}{{"pure", pure, true}, {"with text that is void", void, false}} {
		t.Run(tt.name, func(t *testing.T) {
			door, err := responsesapi.New(responsesapi.Config{Turns: scripted{steps: steps, follow: tt.follow}, Sessions: nothing{}, Tools: nothing{}, Contexts: contexts{}})
			if err != nil {
				t.Fatal(err)
			}
			var last string
			var fault error
			for e, err := range events.All(t.Context(), door.Reader(local, idOfST, -1)) {
				last, fault = e.Type, err
			}
			if got := fault == nil && last == "response.completed"; got != tt.ok {
				t.Errorf("the stream ends with %q, %v", last, fault)
			}
		})
	}
}

// idOfST is the id of the first response of turn t in session s. It was given out once
// and must be understood for ever.
const idOfST = "resp_y0BNXgEBc3Q"

func TestGet_OnlyIdsThatWereGivenOut(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "x"})
	id := r.new(responses.ResponseNewParams{Model: "default", Input: text("Hi")}).ID
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(id, "resp_"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 1
		if status, _, body := r.do("GET", "responses/resp_"+base64.RawURLEncoding.EncodeToString(raw), ""); status != 404 {
			t.Errorf("with byte %d changed: got %d %s", i, status, body)
		}
		raw[i] ^= 1
	}
	for n := range len(id) {
		if status, _, _ := r.do("GET", "responses/"+id[:n]+"x", ""); status != 404 {
			t.Errorf("%s: got %d", id[:n]+"x", status)
		}
	}
}

// The server stops under a streamed turn and starts again: the turn goes on with all
// that the request brought, and the client finds its response.
func TestRestart_TheResponseGoesOn(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, llmtest.Reply{Text: "one"},
		llmtest.Reply{Text: "lost", Block: gate}, llmtest.Reply{Calls: []llmtest.Call{{ID: "call_m", Name: "agent_list_modes"}}}, llmtest.Reply{Text: "two"})
	defer close(gate)
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("1")})
	s := r.client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
		Input: text("2"), PreviousResponseID: openai.String(one.ID), Instructions: openai.String("Rhyme."), Metadata: map[string]string{"k": "v"}})
	if !s.Next() {
		t.Fatal(s.Err())
	}
	id := s.Current().Response.ID
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.kill()
	for s.Next() {
		if e := s.Current(); strings.HasPrefix(e.Type, "response.") && e.Response.Status == "completed" {
			t.Errorf("the stream claims to be whole: %s", e.RawJSON())
		}
	}
	if s.Err() == nil {
		t.Error("the stream ends as if it were whole")
	}
	r.start()
	joined := r.client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{})
	for joined.Next() {
	}
	if e := joined.Current(); joined.Err() != nil || e.Response.OutputText() != "two" || e.Response.Metadata["k"] != "v" {
		t.Errorf("got %s, %v", e.RawJSON(), joined.Err())
	}
	for i, request := range r.provider.Requests() {
		if got, want := strings.Contains(string(request), "Rhyme."), i > 0; got != want {
			t.Errorf("model call %d has the instructions: %v, want %v", i+1, got, want)
		}
	}
}

// instructions and tool_choice are the turn's SystemPrompt and ToolChoiceName, and the
// canonical request has them as AGN-003 says: with the first call of a conversation the
// one, with the first call of each turn the other.
func TestCreate_CanonicalRequest(t *testing.T) {
	prove.Rule(t, "AGN003-4.2-a", "AGN003-4.2-b", "AGN003-4.2-c", "AGN003-6.2-a", "AGN003-6.2-b")
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Text: "two"}, llmtest.Reply{Text: "three"})
	choice := responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "get_weather"}}
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("1"), Instructions: openai.String("Be brief."), Tools: []responses.ToolUnionParam{weather}, ToolChoice: choice})
	two := r.new(responses.ResponseNewParams{Input: text("2"), PreviousResponseID: openai.String(one.ID), Instructions: openai.String("Rhyme.")})
	three := r.new(responses.ResponseNewParams{Model: "default", Input: text("3"), Instructions: openai.String("  ")})
	type canonical struct {
		Input []struct {
			Role    string
			Content []struct{ Text string }
		}
		ToolChoice *struct{ Type, Name string } `json:"tool_choice"`
	}
	var got []canonical
	for _, resp := range []*responses.Response{one, two, three} {
		turns, _, err := r.pipeline.Turns(t.Context(), local, agent.SessionID(resp.Conversation.ID), storePage)
		if err != nil {
			t.Fatal(err)
		}
		key := turns[0].Key
		if resp == two {
			key = turns[1].Key
		}
		calls, err := r.pipeline.Requests(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var c canonical
		if err := json.Unmarshal([]byte(calls[0].Canonical), &c); err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	first, followUp, blank := got[0], got[1], got[2]
	if first.Input[0].Role != "system" || first.Input[0].Content[0].Text != "You are Aptix." || first.Input[0].Content[1].Text != "Be brief." {
		t.Errorf("the system message is %+v", first.Input[0])
	}
	if c := first.ToolChoice; c == nil || c.Type != "tool" || c.Name != "get_weather" {
		t.Errorf("the tool choice is %+v", c)
	}
	if len(followUp.Input) != 1 || followUp.Input[0].Role != "user" || followUp.ToolChoice != nil {
		t.Errorf("the follow-up is %+v", followUp)
	}
	if s := blank.Input[0]; s.Role != "system" || strings.TrimSpace(s.Content[1].Text) == "" {
		t.Errorf("blank instructions are in the system message: %+v", s)
	}
}
