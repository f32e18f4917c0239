package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/quota"
)

// noon is a moment that is not near the end of a day.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func withBudgets(p budget.Plans) func(*rig) {
	return func(r *rig) { r.budgets = p }
}

// today returns what the caller's organisation has spent of a day's budget.
func (r *rig) today(at time.Time) budget.Amount {
	r.t.Helper()
	spent, err := r.store.Spent(r.t.Context(), caller.Org, []budget.Scope{{Period: at.UTC().Format(time.DateOnly)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return spent[0]
}

// meter is a model whose answers cost differently, and who knows what all of them cost. Each
// turn calls tools a few times before it is answered.
type meter struct {
	mu    sync.Mutex // guards what follows
	calls int
	spent int64
	most  int64
	tools int
}

func (m *meter) answer(request []byte) llmtest.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	tokens := int64(400 + 173*(m.calls%13))
	m.spent, m.most = m.spent+tokens, max(m.most, tokens)
	reply := llmtest.Reply{Text: "Done.", Usage: agent.Usage{InputTokens: tokens - 100, OutputTokens: 100, TotalTokens: tokens}}
	if bytes.Count(request, []byte(`"function_call_output"`)) < 3 {
		m.tools++
		reply.Text, reply.Calls = "", []llmtest.Call{{ID: fmt.Sprint("call_", m.calls), Name: "agent_list_modes"}}
	}
	return reply
}

// L-10: many turns of one organisation at once, on one node and on several that share a
// database, spend no more than one model call over its budget; what the ledger says was
// spent is what the model has given.
func TestBudget_OvershootIsOneCall(t *testing.T) {
	const turns, limit = 100, 60_000
	// With the bound of real models all calls go one after the other here; with a small one
	// many go at once until little is left.
	for _, answer := range []int64{0, 200} {
		for name, rigs := range map[string]func(*testing.T, *meter, budget.Plans) []*rig{
			"one node": func(t *testing.T, m *meter, p budget.Plans) []*rig {
				r := newRig(t, withModel(t), withBudgets(p))
				r.provider.Otherwise(m.answer)
				return []*rig{r}
			},
			"three nodes": func(t *testing.T, m *meter, p budget.Plans) []*rig {
				all := nodes(t, 3, nil, withBudgets(p))
				all[0].provider.Otherwise(m.answer)
				return all
			},
		} {
			t.Run(fmt.Sprintf("%s, answers of %d", name, answer), func(t *testing.T) {
				t.Parallel()
				m := &meter{}
				all := rigs(t, m, budget.Plans{Default: budget.Plan{Day: budget.Amount{Tokens: limit}}, Answer: answer})
				var work sync.WaitGroup
				var mu sync.Mutex
				ends := map[string]int{}
				began := time.Now()
				for i := range turns {
					work.Go(func() {
						r := all[i%len(all)]
						end := "refused"
						key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn(fmt.Sprint("s", i), "t1", "Hello"))
						switch {
						case agent.KindOf(err) == agent.KindRateLimited:
						case err != nil:
							t.Error(err)
							return
						default:
							turn, err := r.pipeline.Await(t.Context(), key)
							if err != nil {
								t.Error(err)
								return
							}
							end = string(turn.State)
							if turn.Fault != nil && (turn.Fault.Kind != agent.KindLimitReached || !strings.Contains(turn.Fault.Message, "organisation's budget of 60000 tokens for the day")) {
								t.Errorf("a turn failed with %+v", *turn.Fault)
							}
							r.journal(turn)
						}
						mu.Lock()
						defer mu.Unlock()
						ends[end]++
					})
				}
				work.Wait()
				t.Logf("%d calls took %d tokens of %d (largest call %d) in %s: %v", m.calls, m.spent, limit, m.most, time.Since(began).Round(time.Millisecond), ends)
				if m.spent < limit || m.spent-limit > m.most {
					t.Errorf("%d tokens were spent of a budget of %d; a call takes %d at most", m.spent, limit, m.most)
				}
				if got := all[0].today(time.Now()).Tokens; got != m.spent {
					t.Errorf("the ledger has %d, the model has given %d", got, m.spent)
				}
				if ends["failed"] == 0 {
					t.Error("no running turn met the end of the budget")
				}
			})
		}
	}
}

func clockAt(at time.Time) func(*rig) { return func(r *rig) { r.now = func() time.Time { return at } } }

// cost is what each reply of these tests takes.
var cost = agent.Usage{InputTokens: 800, CachedTokens: 300, OutputTokens: 200, TotalTokens: 1000}

func said(text string) llmtest.Reply { return llmtest.Reply{Text: text, Usage: cost} }

func listing(id string) llmtest.Reply {
	return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: "agent_list_modes"}}, Usage: cost}
}

// Nothing new is begun when a budget is used up, and nothing of it is stored; a day's and a
// month's say when they begin anew.
func TestBudget_RefusesNewTurns(t *testing.T) {
	price := map[string]budget.Price{"test-model": {Input: 2, CachedInput: 1, Output: 10}}
	for name, tt := range map[string]struct {
		plan  budget.Plan
		kind  agent.Kind
		wait  time.Duration
		words string
	}{
		"day":           {budget.Plan{Day: budget.Amount{Tokens: 1000}}, agent.KindRateLimited, 12 * time.Hour, "budget of 1000 tokens for the day"},
		"month":         {budget.Plan{Month: budget.Amount{Tokens: 900}}, agent.KindRateLimited, 12 * time.Hour, "2026-02-01T00:00:00Z"},
		"cost":          {budget.Plan{Day: budget.Amount{Cost: budget.CostOf(0.0033)}}, agent.KindRateLimited, 12 * time.Hour, "cost of 0.0033"},
		"session":       {budget.Plan{Session: budget.Amount{Tokens: 1000}}, agent.KindLimitReached, 0, "session's budget of 1000 tokens"},
		"the wider one": {budget.Plan{Session: budget.Amount{Tokens: 1}, Month: budget.Amount{Tokens: 1}}, agent.KindRateLimited, 12 * time.Hour, "month"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withModel(t, said("One.")), withBudgets(budget.Plans{Default: tt.plan, Prices: price}), clockAt(noon))
			r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")}))
			_, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t2", "Again"))
			fault := (*agent.Error)(nil)
			if !errors.As(err, &fault) || fault.Kind != tt.kind || fault.RetryAfter != tt.wait || !strings.Contains(fault.Message, tt.words) {
				t.Fatalf("got %v", err)
			}
			if _, err := r.store.Turn(t.Context(), agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t2"}); agent.KindOf(err) != agent.KindNotFound {
				t.Errorf("the refused turn: %v", err)
			}
			// What was answered is answered again.
			if _, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello")); err != nil {
				t.Errorf("the first turn again: %v", err)
			}
		})
	}
}

// A running turn ends before its next call, or before tools that it may not call any more.
// What it took counts.
func TestBudget_EndsARunningTurn(t *testing.T) {
	for name, tt := range map[string]struct {
		plan  budget.Plan
		asked int
		words string
	}{
		"tokens of the turn":        {budget.Plan{Turn: budget.Amount{Tokens: 1500}}, 2, "turn's budget of 1500 tokens"},
		"tokens of the session":     {budget.Plan{Session: budget.Amount{Tokens: 1000}}, 1, "session's budget"},
		"tool calls of the turn":    {budget.Plan{Turn: budget.Amount{ToolCalls: 1}}, 2, "turn's budget of 1 tool calls"},
		"tool calls of the session": {budget.Plan{Session: budget.Amount{ToolCalls: 2}}, 3, "session's budget of 2 tool calls"},
		"time of the turn":          {budget.Plan{Turn: budget.Amount{Time: time.Minute}}, 1, "turn's budget of 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			now := noon
			r := newRig(t, withModel(t), withBudgets(budget.Plans{Default: tt.plan}), func(r *rig) {
				r.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			})
			n := 0
			r.provider.Otherwise(func([]byte) llmtest.Reply {
				mu.Lock()
				defer mu.Unlock()
				n++
				now = now.Add(2 * time.Minute)
				return listing(fmt.Sprint("call_", n))
			})
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
			if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached || !strings.Contains(turn.Fault.Message, tt.words) {
				t.Fatalf("the turn is %s: %+v", turn.State, turn.Fault)
			}
			if n != tt.asked {
				t.Errorf("the model was asked %d times, want %d", n, tt.asked)
			}
			r.journal(turn) // whole, with a result for each call
			spent, err := r.store.Spent(t.Context(), caller.Org, []budget.Scope{{}})
			want := budget.Amount{Tokens: int64(1000 * tt.asked), ToolCalls: spent[0].ToolCalls, Time: spent[0].Time}
			if diff := cmp.Diff(want, spent[0]); err != nil || diff != "" {
				t.Errorf("spent (error %v) (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The model may still answer when all its tool calls are used.
func TestBudget_AnswerAfterTheLastTool(t *testing.T) {
	r := newRig(t, withModel(t, listing("c1"), said("One tool was enough.")),
		withBudgets(budget.Plans{Default: budget.Plan{Turn: budget.Amount{ToolCalls: 1}}}))
	if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})).PrimaryOutputText; got != "One tool was enough." {
		t.Errorf("answer %q", got)
	}
}

// A turn that fails, or is broken off, has taken what it has taken.
func TestBudget_FailedTurnsCount(t *testing.T) {
	plans := withBudgets(budget.Plans{Default: budget.Plan{Day: budget.Amount{Tokens: 1 << 30}}})
	t.Run("incomplete", func(t *testing.T) {
		r := newRig(t, withModel(t, llmtest.Reply{Text: "Half", Incomplete: "max_output_tokens", Usage: cost}), plans, clockAt(noon))
		if turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")}); turn.State != agent.TurnFailed {
			t.Fatalf("the turn is %s", turn.State)
		}
		if got := r.today(noon).Tokens; got != 1000 {
			t.Errorf("%d tokens are counted, want 1000", got)
		}
	})
	t.Run("refused by the provider", func(t *testing.T) {
		r := newRig(t, withModel(t, llmtest.Reply{Status: 400}), plans, clockAt(noon))
		r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
		if got := r.today(noon); got != (budget.Amount{}) {
			t.Errorf("%v is counted of a call that was refused", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		r := newRig(t, withModel(t, llmtest.Reply{Deltas: []string{strings.Repeat("word ", 400), "x"}, Block: never, BlockAfter: 5}), plans, clockAt(noon))
		key := r.submit(streamed("s1", "t1", "Hello"))
		r.read(key, 0).until(t, agent.EventTextDelta)
		if err := r.pipeline.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		// 2,000 bytes were said, and some were sent.
		if got := r.today(noon).Tokens; got < 500 || got > 5000 {
			t.Errorf("%d tokens are counted", got)
		}
	})
}

// A process that dies over a call leaves it held. The turn goes on from its journal, and each
// answer counts once.
func TestBudget_SurvivesARestart(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	// One call at a time: what is left held would keep the next one waiting.
	r := newRig(t, withModel(t, listing("c1"), llmtest.Reply{Text: "Lost.", Block: never}, said("Found.")),
		withBudgets(budget.Plans{Default: budget.Plan{Day: budget.Amount{Tokens: 2500}}}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	r.asked(2)
	other := agent.TurnKey{Org: caller.Org, Session: "s2", Turn: "dead"}
	if err := r.store.Books(t.Context(), key, func(b budget.Books) error { // as if the process had died
		return b.Hold("of the dead process", budget.Amount{Tokens: 1 << 20}, time.Now().Add(time.Hour))
	}, nil); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	r.stopped = false
	r.restart()
	if got := r.answer(r.await(key)).PrimaryOutputText; got != "Found." {
		t.Errorf("answer %q", got)
	}
	// The two answers, and the request of the one that was lost.
	if got := r.today(time.Now()).Tokens; got < 2000 || got > 5000 {
		t.Errorf("%d tokens are counted", got)
	}
	if err := r.store.Books(t.Context(), other, func(b budget.Books) error {
		calls, _, err := b.Held(time.Now())
		if calls != 0 {
			t.Errorf("%d calls are held", calls)
		}
		return err
	}, nil); err != nil {
		t.Fatal(err)
	}
}

// An organisation has its own budgets and spends of nobody else's.
func TestBudget_IsTheOrganisations(t *testing.T) {
	r := newRig(t, withModel(t, said("One."), said("Two."), said("Three.")), clockAt(noon), withBudgets(budget.Plans{
		Default:       budget.Plan{Day: budget.Amount{Tokens: 1000}},
		Organisations: map[agent.OrgID]budget.Plan{"globex": {Day: budget.Amount{Tokens: 2000}}},
	}))
	send := func(org agent.OrgID, turn string) error {
		key, _, err := r.pipeline.Submit(t.Context(), agent.Caller{Org: org, User: "bob"}, userTurn("s1", turn, "Hello"))
		if err == nil {
			r.await(key)
		}
		return err
	}
	for _, tt := range []struct {
		org  agent.OrgID
		turn string
		fits bool
	}{{"acme", "t1", true}, {"acme", "t2", false}, {"globex", "t1", true}, {"globex", "t2", true}, {"globex", "t3", false}} {
		if err := send(tt.org, tt.turn); (err == nil) != tt.fits {
			t.Errorf("%s %s: %v", tt.org, tt.turn, err)
		}
	}
}

// As many turns run at a time as may, and the next one is told to come again.
func TestQuota_Turns(t *testing.T) {
	release := make(chan struct{})
	var replies []llmtest.Reply
	for range 4 {
		replies = append(replies, llmtest.Reply{Text: "Yes.", Block: release})
	}
	r := newRig(t, withModel(t, replies...), func(r *rig) { r.quotas.Default.Turns = 3 })
	var mu sync.Mutex
	var taken []agent.TurnKey
	refused := 0
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn(fmt.Sprint("s", i), "t1", "Hello"))
			mu.Lock()
			defer mu.Unlock()
			fault := (*agent.Error)(nil)
			switch {
			case err == nil:
				taken = append(taken, key)
			case errors.As(err, &fault) && fault.Kind == agent.KindRateLimited && fault.RetryAfter > 0:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	work.Wait()
	if len(taken) > 3 || len(taken) == 0 || refused != 20-len(taken) {
		t.Errorf("%d turns run and %d were refused, want 3 at most", len(taken), refused)
	}
	if _, _, err := r.pipeline.Submit(t.Context(), agent.Caller{Org: "globex", User: "bob"}, userTurn("s", "t", "Hello")); err != nil {
		t.Errorf("another organisation: %v", err)
	}
	close(release)
	for _, key := range taken {
		r.await(key)
	}
}

// No more sessions are made than an organisation may have, however they come at once.
func TestQuota_Sessions(t *testing.T) {
	r := newRig(t, withModel(t), func(r *rig) {
		r.quotas = quota.Plans{Default: quota.Limits{Sessions: 5}}
	})
	r.provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: "Yes."} })
	var work sync.WaitGroup
	for i := range 30 {
		work.Go(func() {
			_, _, err := r.pipeline.Submit(t.Context(), caller, userTurn(fmt.Sprint("s", i), "t1", "Hello"))
			if err != nil && agent.KindOf(err) != agent.KindLimitReached {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if n, err := r.store.CountSessions(t.Context(), caller.Org, 100); n != 5 || err != nil {
		t.Errorf("there are %d sessions (error %v), want 5", n, err)
	}
}

// Calls run side by side as long as all of them fit, and then one after the other.
func TestBudget_SideBySide(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One.", Block: release}, llmtest.Reply{Text: "Two.", Block: release}, llmtest.Reply{Text: "Three."}),
		withBudgets(budget.Plans{Default: budget.Plan{Day: budget.Amount{Tokens: 190_000}}, Answer: 100_000}))
	var keys []agent.TurnKey
	for i := range 3 {
		keys = append(keys, r.submit(userTurn(fmt.Sprint("s", i), "t1", "Hello")))
	}
	r.asked(2) // one may take a bit more than half, the second the rest; then nothing may be left
	third := make(chan error, 1)
	go func() { third <- r.provider.Await(t.Context(), 3) }()
	select {
	case <-third:
		t.Error("the third call did not wait")
	case <-time.After(200 * time.Millisecond): // long enough for some looks at the ledger
	}
	close(release)
	for _, key := range keys {
		r.answer(r.await(key))
	}
	if err := <-third; err != nil {
		t.Error(err)
	}
}

// A call that was reserved and never sent takes nothing, and holds nothing.
func TestBudget_UnsentCallIsReleased(t *testing.T) {
	r := newRig(t, withModel(t))
	k, err := budget.New(budget.Config{Ledger: r.store, Plans: budget.Plans{Default: budget.Plan{Day: budget.Amount{Tokens: 1000}}},
		CallTime: time.Minute, Log: r.log, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	a := k.Open(budget.Run{Key: agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}})
	held := func() (calls int64) {
		t.Helper()
		err := r.store.Books(t.Context(), agent.TurnKey{Org: caller.Org, Session: "s2", Turn: "t2"}, func(b budget.Books) (err error) {
			calls, _, err = b.Held(noon)
			return err
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return calls
	}
	if err := a.Reserve(t.Context(), 4000); err != nil || held() != 1 {
		t.Fatalf("%d calls are held (error %v)", held(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as when the turn is cancelled
	a.Release(ctx)
	if got := r.today(noon); held() != 0 || got != (budget.Amount{}) {
		t.Errorf("%d calls are held, %v is spent", held(), got)
	}
}
