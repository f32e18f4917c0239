package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
)

// parrot is a provider whose model can do what a MemoryProbe asks for: it knows the
// word if what it is shown has one.
type parrot struct {
	t *testing.T
	// remembers shows the model what was said before; otherwise an id is taken and not
	// looked at.
	remembers bool
	// status refuses a request with an id, and first one without.
	status, first int
	// answers has %s for the word that the model saw, or NONE.
	answers string
	// nameless gives responses no id.
	nameless bool

	bodies []body
}

var quoted = regexp.MustCompile(`"([a-z]+)"`)

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	wirecheck.Check(p.t, data)
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		p.t.Error(err)
	}
	p.bodies = append(p.bodies, b)
	status, seen := p.first, p.bodies[len(p.bodies)-1:]
	if b.PreviousResponseID != "" {
		status = p.status
		if p.remembers && b.PreviousResponseID == "resp_1" {
			seen = p.bodies
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`)
		return
	}
	word := "NONE"
	for _, b := range seen {
		if m := quoted.FindStringSubmatch(b.Input[0].Content[0].Text); m != nil {
			word = m[1]
		}
	}
	text := "OK"
	if b.PreviousResponseID != "" {
		text = strings.ReplaceAll(p.answers, "%s", word)
	}
	id := fmt.Sprintf("resp_%d", len(p.bodies))
	if p.nameless {
		id = ""
	}
	_, _ = fmt.Fprintf(w, `{"id":%q,"object":"response","status":"completed","output":[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":%q}]}],"usage":%s}`, id, text, usage)
}

func TestMemoryProbe_TellsMemoryFromAcceptance(t *testing.T) {
	for name, tc := range map[string]struct {
		provider parrot
		want     llm.Memory
	}{
		"remembers":                  {parrot{remembers: true, answers: "%s"}, llm.Memory{Recall: llm.RecallRemembers}},
		"remembers, in a sentence":   {parrot{remembers: true, answers: "The word was “%s”."}, llm.Memory{Recall: llm.RecallRemembers}},
		"takes the id and forgets":   {parrot{answers: "%s"}, llm.Memory{Recall: llm.RecallForgets}},
		"forgets, and makes one up":  {parrot{answers: "banana"}, llm.Memory{Recall: llm.RecallForgets}},
		"says nothing":               {parrot{remembers: true, answers: ""}, llm.Memory{Recall: llm.RecallForgets}},
		"refuses the parameter":      {parrot{status: 400}, llm.Memory{Recall: llm.RecallRefuses, Status: 400}},
		"has no such response":       {parrot{status: 404}, llm.Memory{Recall: llm.RecallRefuses, Status: 404}},
		"cannot process it":          {parrot{status: 422}, llm.Memory{Recall: llm.RecallRefuses, Status: 422}},
		"has not implemented it yet": {parrot{status: 501}, llm.Memory{Recall: llm.RecallRefuses, Status: 501}},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.provider
			p.t = t
			c := serve(t, llm.Config{}, p.ServeHTTP)
			got, err := llm.MemoryProbe{Client: c, Model: "m"}.Run(t.Context())
			want(t, err, nil)
			want(t, got, tc.want)
			if len(p.bodies) != 2 {
				t.Fatalf("%d model calls", len(p.bodies))
			}
			for _, b := range p.bodies {
				want(t, b.Model, "m")
				want(t, b.Store, ptr(true))
				want(t, b.shape(), []string{"user:text"})
			}
			want(t, p.bodies[1].PreviousResponseID, "resp_1")
			if m := quoted.FindStringSubmatch(p.bodies[0].Input[0].Content[0].Text); m == nil || strings.Contains(p.bodies[1].Input[0].Content[0].Text, m[1]) {
				t.Errorf("the second question gives the word away, or the first has none: %+v", p.bodies)
			}
		})
	}
}

func TestMemoryProbe_FindsNothingOut(t *testing.T) {
	for name, p := range map[string]*parrot{
		"refused from the start":        {first: 400},
		"wrong key":                     {first: 401},
		"out of budget in between":      {status: 429},
		"broken in between":             {status: 500},
		"the key is withdrawn meantime": {status: 401},
		"gives no ids":                  {nameless: true, answers: "%s"},
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			c := serve(t, llm.Config{}, p.ServeHTTP)
			got, err := llm.MemoryProbe{Client: c, Model: "m"}.Run(t.Context())
			want(t, got, llm.Memory{})
			if e := (*agent.Error)(nil); !errors.As(err, &e) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMemoryProbe_EachWordIsANewOne(t *testing.T) {
	words := map[string]bool{}
	for range 20 {
		p := &parrot{t: t, remembers: true, answers: "%s"}
		if _, err := (llm.MemoryProbe{Client: serve(t, llm.Config{}, p.ServeHTTP), Model: "m"}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		words[quoted.FindStringSubmatch(p.bodies[0].Input[0].Content[0].Text)[1]] = true
	}
	want(t, len(words), 20)
}

func TestMemoryProbe_LeavesStoreOutWhereItIsNotTaken(t *testing.T) {
	p := &parrot{t: t, remembers: true, answers: "%s"}
	_, err := llm.MemoryProbe{Client: serve(t, llm.Config{}, p.ServeHTTP), Model: "m", OmitStore: true}.Run(t.Context())
	want(t, err, nil)
	for _, b := range p.bodies {
		want(t, b.Store, (*bool)(nil))
	}
}

// TestMemoryProbe_OfTheStrictProvider meets the memory of the real service: it knows
// the id, and its scripted model does not know the word.
func TestMemoryProbe_OfTheStrictProvider(t *testing.T) {
	provider := llmtest.New(t, llmtest.Reply{Text: "OK"}, llmtest.Reply{Text: "NONE"})
	c := llm.New(llm.Config{BaseURL: provider.URL})
	t.Cleanup(c.Close)
	got, err := llm.MemoryProbe{Client: c, Model: "m"}.Run(t.Context())
	want(t, err, nil)
	want(t, got, llm.Memory{Recall: llm.RecallForgets})
	want(t, provider.Left(), 0)
}

func TestMemoryProbe_EndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := serve(t, llm.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		// Only with the body read does the server notice that the client has left.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		stop()
		<-r.Context().Done()
	})
	if _, err := (llm.MemoryProbe{Client: c, Model: "m"}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
