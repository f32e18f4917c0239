package llm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/house"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/secret"
)

// form is how an answer is asked for.
type form string

const (
	asStream   form = "stream"
	asDocument form = "document"
)

// fault is one row of the table: what a provider does, and what must come of it.
type fault struct {
	name  string
	forms []form
	// places is at how many places of the answer it strikes; 1 when there is but one.
	places int
	// play does it: before event n of the stream, or at the n-th of places cuts of the
	// document.
	play func(c rawConn, n int)
	// nowhere is an address to ask instead of a provider that plays.
	nowhere string
	limits  llm.Config

	// want is the kind of the error, or harmless.
	want agent.Kind
	// requests is how many the provider gets.
	requests int
	// connections is how many it gets, where that is something else.
	connections int
	// retryAfter is what the client of the turn is told.
	retryAfter time.Duration
	// fewer allows less text than was sent: a reset discards what was not read yet.
	fewer bool
}

// harmless is the outcome of what is odd and no fault: the whole answer, once.
const harmless agent.Kind = "answered"

// outcome is what came of one fault at one place.
type outcome struct {
	kind     agent.Kind
	requests int
	deltas   int
}

// TestFaultTable plays every fault that a provider was seen to have, on real sockets,
// at every place of a long answer, and holds the outcomes to four rules: no fault is a
// completed answer; no tool call comes of a part of an answer; nothing is asked for
// again once an answer has begun; no goroutine is left. The table goes to docs/faults.md.
func TestFaultTable(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var rows []string
	total := 0
	for _, f := range slices.Concat(refusals(), connections(), streams(), documents(), oddities()) {
		t.Run(f.name, func(t *testing.T) {
			outcomes := make([]outcome, len(f.forms)*f.places)
			var places sync.WaitGroup
			for i := range outcomes {
				places.Go(func() { outcomes[i] = f.strike(t, f.forms[i/f.places], i%f.places) })
			}
			places.Wait()
			total += len(outcomes)
			rows = append(rows, f.row(outcomes))
		})
	}
	table := faultPage(rows, total)
	t.Logf("%d outcomes\n%s", total, strings.Join(rows, "\n"))
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs", "faults.md")
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != table && !t.Failed() {
		t.Error("docs/faults.md is not up to date, run `go test ./internal/llm -run TestFaultTable -update` and read what has changed")
		want(t, table, string(stored))
	}
}

// strike plays the fault at one place and judges the outcome.
func (f fault) strike(t *testing.T, as form, n int) outcome {
	url := f.nowhere
	p := &rawProvider{}
	if f.play != nil {
		p = playRaw(t, func(c rawConn) { f.play(c, n) })
		url = strings.Replace(f.nowhere, "{here}", strings.TrimPrefix(p.url, "http://"), 1)
		if url == "" {
			url = p.url
		}
	}
	cfg := f.limits
	cfg.BaseURL, cfg.APIKey = url, secret.New(key)
	c := llm.New(cfg)
	defer c.Close()
	provider := llm.NewProvider(llm.ProviderConfig{Client: c, Backoff: time.Microsecond})
	var g got
	for ev, err := range provider.Ask(t.Context(), &llm.Wire{Head: `{"model":"m"}`}, as == asStream) {
		g.take(t, ev, err)
	}
	o := outcome{kind: harmless, requests: int(p.requests.Load()), deltas: len(g.Deltas)}
	if g.Err != nil {
		o.kind = agent.KindOf(g.Err)
	}
	at := fmt.Sprintf("%s, %s, place %d", f.name, as, n)
	if o.kind != f.want {
		t.Errorf("%s: got %s (%v), want %s", at, o.kind, g.Err, f.want)
	}
	if o.requests != f.requests {
		t.Errorf("%s: the provider got %d requests, want %d", at, o.requests, f.requests)
	}
	if got := int(p.connections.Load()); f.connections > 0 && got != f.connections {
		t.Errorf("%s: the provider got %d connections, want %d", at, got, f.connections)
	}
	if f.want == harmless {
		if err := answered(g, as == asStream && !f.fewer); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		return o
	}
	if r := g.Response; r != nil && (r.Status == "completed" || as == asDocument && len(g.Deltas) > 0) {
		t.Errorf("%s: an answer came of it: %+v", at, *r)
	}
	if strings.Contains(g.Err.Error(), key) {
		t.Errorf("%s: %v shows the key", at, g.Err)
	}
	var e *agent.Error
	if errors.As(g.Err, &e) && e.RetryAfter != f.retryAfter {
		t.Errorf("%s: the client is told to wait %v, want %v", at, e.RetryAfter, f.retryAfter)
	}
	// What was shown is what was said, up to the fault and no further.
	sent := ""
	if as == asStream && f.places > 1 {
		sent = strings.Join(deltasOf(longStream()[:n]), "")
	}
	if text := g.text(); text != sent && !(f.fewer && strings.HasPrefix(sent, text)) {
		t.Errorf("%s: text %q, want %q", at, text, sent)
	}
	return o
}

// row renders what came of a fault, all places together.
func (f fault) row(outcomes []outcome) string {
	kinds, requests := map[string]bool{}, map[string]bool{}
	for _, o := range outcomes {
		kinds["`"+string(o.kind)+"`"] = true
		requests[fmt.Sprint(o.requests)] = true
	}
	list := func(set map[string]bool) string {
		var out []string
		for k := range set {
			out = append(out, k)
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	result := list(kinds)
	if f.want == harmless {
		result = "the whole answer, once"
	}
	if f.retryAfter > 0 {
		result += ", to be tried again after " + f.retryAfter.String()
	}
	var forms []string
	for _, as := range f.forms {
		forms = append(forms, string(as))
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s |", f.name, strings.Join(forms, ", "), f.places, result, list(requests))
}

func faultPage(rows []string, total int) string {
	return fmt.Sprintf(`<!-- Generated by go test ./internal/llm -run TestFaultTable -update. Do not edit. -->

# Faults of a provider

What comes of each fault that a provider can have, played on real sockets at every place of a long answer: before
each of the sixty events of a stream with reasoning, text and a tool call, or at sixty cuts of the same answer as a
document. The test that makes this page fails when a fault is taken for an answer, when a tool call comes of part
of an answer, when something is asked for again that may have been generated, or when a goroutine stays behind.

"Requests" is how many the provider gets; 3 is the default of `+"`limits.modelAttempts`"+`. %d outcomes.

| Fault | Asked for as | Places | Outcome | Requests |
|---|---|---|---|---|
%s
`, total, strings.Join(rows, "\n"))
}
