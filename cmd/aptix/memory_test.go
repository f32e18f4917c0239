package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/secret"
)

// forgetful answers each request with the word that stands in it in quotes.
func forgetful(w http.ResponseWriter, r *http.Request) { reply(w, r, new(string)) }

// mindful answers also with the word of an earlier request.
func mindful() http.HandlerFunc {
	var word string
	return func(w http.ResponseWriter, r *http.Request) { reply(w, r, &word) }
}

func refusing(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(string(reply(httptest.NewRecorder(), r, new(string))), "previous_response_id") {
		reply(w, r, new(string))
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

var quoted = regexp.MustCompile(`\\"([a-z]+)\\"`)

// reply answers with the word that the request or else memory has, and returns the
// request.
func reply(w http.ResponseWriter, r *http.Request, memory *string) json.RawMessage {
	var body json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&body)
	if m := quoted.FindSubmatch(body); m != nil {
		*memory = string(m[1])
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"resp_1","object":"response","status":"completed","output":[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":%q}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, "It is "+*memory)
	return body
}

func TestCheckContinuity(t *testing.T) {
	const transcript, memory = " sends the transcript with each request", " relies on the provider's memory"
	for name, tc := range map[string]struct {
		provider   func() http.HandlerFunc
		preset     config.Preset
		continuity config.Continuity
		want       string
		wantFail   bool
	}{
		"remembers, and is relied on":   {mindful, "lmstudio", "auto", "the provider remembers; auto" + memory, false},
		"remembers unbeknownst":         {mindful, "", "auto", "the provider remembers; auto" + transcript + "; to send only what is new, set openai.capabilities.stateful to true", false},
		"remembers, and need not":       {mindful, "lmstudio", "replay", "the provider remembers; replay" + transcript + ", as was asked for", false},
		"forgets, as is known":          {func() http.HandlerFunc { return forgetful }, "ollama", "auto", "the provider accepts previous_response_id and forgets; auto" + transcript, false},
		"forgets, and is relied on":     {func() http.HandlerFunc { return forgetful }, "lmstudio", "auto", "the provider accepts previous_response_id and forgets; auto" + memory + "; set openai.capabilities.stateful to false", true},
		"refuses, as may be":            {func() http.HandlerFunc { return refusing }, "", "auto", "the provider refuses previous_response_id (status 404); auto" + transcript, false},
		"refuses, and must not":         {func() http.HandlerFunc { return refusing }, "", "provider", "the provider refuses previous_response_id (status 404); provider" + memory + "; set APTIX_CONTINUITY=replay", true},
		"cannot be asked":               {func() http.HandlerFunc { return http.NotFound }, "", "auto", "auto" + transcript + "; the provider's memory could not be tested: ", true},
		"is not asked without the flag": {nil, "", "auto", "auto" + transcript + "; 'aptix doctor --probe' tests that memory with two small model calls", false},
	} {
		t.Run(name, func(t *testing.T) {
			handle := func(http.ResponseWriter, *http.Request) { t.Error("a model was asked") }
			if tc.provider != nil {
				handle = tc.provider()
			}
			s := httptest.NewServer(http.HandlerFunc(handle))
			t.Cleanup(s.Close)
			cfg := config.Config{Provider: config.ProviderOpenAI, Model: "m1", Continuity: tc.continuity,
				OpenAI:        config.OpenAI{BaseURL: s.URL + "/v1", APIKey: secret.New("sk-1"), Preset: tc.preset},
				AgentContexts: []config.AgentContext{{ID: "a", ConversationContexts: []config.ConversationContext{{ID: "c"}}}},
			}
			found, err := checkContinuity(t.Context(), cfg, tc.provider != nil)
			if (err != nil) != tc.wantFail {
				t.Errorf("got %q, %v", found, err)
			}
			if err != nil {
				found = err.Error()
			}
			if found != tc.want && (tc.want[len(tc.want)-1] != ' ' || !strings.HasPrefix(found, tc.want)) {
				t.Errorf("got  %q\nwant %q", found, tc.want)
			}
		})
	}
}
