package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Recall says what a provider makes of a previous_response_id.
type Recall string

// The recalls.
const (
	// RecallRemembers is a provider that answers in the light of the earlier response.
	RecallRemembers Recall = "remembers"
	// RecallForgets is one that takes the id and answers as if it were not there.
	RecallForgets Recall = "forgets"
	// RecallRefuses is one that will not have the id.
	RecallRefuses Recall = "refuses"
)

// Memory is what a MemoryProbe found out.
type Memory struct {
	Recall Recall
	// Status is the HTTP status of a refusal, 0 when there was none.
	Status int
}

// MemoryProbe finds out whether a provider remembers its responses, by two small model
// calls that are paid for: it names a word, and then asks for it. That an id is taken
// proves nothing; only what the answer says does (decision 29).
type MemoryProbe struct {
	// Client is the way to the provider; required. Its bounds, and those of the context,
	// hold for each of the two calls.
	Client *Client
	// Model is who is asked; required.
	Model string
	// OmitStore is for endpoints that refuse to be told to remember.
	OmitStore bool
}

// Run asks. An error says that nothing was found out: it is the end of ctx, wrapped, or
// an *agent.Error of kind provider_failed or provider_timeout. No call is sent twice.
func (p MemoryProbe) Run(ctx context.Context) (Memory, error) {
	word := newWord()
	first, err := p.ask(ctx, "", fmt.Sprintf("The word is %q. Remember it: you will be asked for it. For now, answer with OK and nothing else.", word))
	if err != nil {
		return Memory{}, fmt.Errorf("tell the model a word: %w", err)
	}
	if first.ID == "" {
		return Memory{}, agent.Errorf(agent.KindProviderFailed, "The provider gives its responses no id, so that none can be continued from.")
	}
	second, err := p.ask(ctx, first.ID, "Which word were you told to remember? Answer with that word alone. If you were told none, answer NONE.")
	if s := (*StatusError)(nil); errors.As(err, &s) && refusesID(s.Status) {
		return Memory{Recall: RecallRefuses, Status: s.Status}, nil
	}
	if err != nil {
		return Memory{}, fmt.Errorf("ask the model for its word: %w", err)
	}
	if strings.Contains(strings.ToLower(second.Text()), word) {
		return Memory{Recall: RecallRemembers}, nil
	}
	return Memory{Recall: RecallForgets}, nil
}

// ask posts one message and returns the answer to it.
func (p MemoryProbe) ask(ctx context.Context, previous, text string) (Response, error) {
	store := true
	r := request{Model: p.Model, Store: &store, PreviousResponseID: previous}
	if p.OmitStore {
		r.Store = nil
	}
	said := encode(message{Type: "message", Role: "user", Content: []part{{Type: "input_text", Text: &text}}})
	var answer Response
	asked := wire(r, said)
	for ev, err := range p.Client.Ask(ctx, &asked, false) {
		if err != nil {
			return Response{}, err
		}
		if ev.Response != nil {
			answer = *ev.Response
		}
	}
	return answer, nil
}

// refusesID reports whether a status, on the very request that differs from one that
// was answered in having an id, is about that id. Those that would come of any request,
// or may be gone in a moment, say nothing.
func refusesID(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return status >= 400 && status < 500 && !passing(status)
}

// newWord returns a word that no model knows and none guesses, one of more than
// a thousand million. It can be spoken, so that a model repeats it without slips.
func newWord() string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	var b strings.Builder
	for range 5 {
		b.WriteByte(consonants[rand.N(len(consonants))])
		b.WriteByte(vowels[rand.N(len(vowels))])
	}
	return b.String()
}
