package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/secret"
)

// newAsked is the whole with a provider that answers from a script.
func newAsked(t *testing.T, with func(*parts), script ...llmtest.Reply) (*whole, *llmtest.Server) {
	t.Helper()
	fake := llmtest.New(t, script...)
	return newWhole(t, func(p *parts) {
		p.model = llm.Config{BaseURL: fake.URL, APIKey: secret.New("k")}
		if with != nil {
			with(p)
		}
	}), fake
}

// crowd sends the same request n times at once and returns the answers.
func (w *whole) crowd(t *testing.T, n int, method, target, body string, meanwhile func()) []answer {
	t.Helper()
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i] = w.do(t, method, target, body) })
	}
	meanwhile()
	wg.Wait()
	return answers
}

// alike holds the answers to one status and to the same bytes.
func alike(t *testing.T, answers []answer, status int) {
	t.Helper()
	for i, a := range answers {
		a.wantStatus(t, status)
		if got, want := a.Body.String(), answers[0].Body.String(); got != want {
			t.Errorf("request %d is answered with %s\nthe first one with %s", i, got, want)
		}
	}
}

func asked(t *testing.T, fake *llmtest.Server, n int) {
	t.Helper()
	if err := fake.Await(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// Whoever sends the same turn, while it runs or later, gets the same bytes, and the
// model is asked once.
func TestAgain_UserTurns(t *testing.T) {
	prove.Rule(t, "AGN034-4.7-d")
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			w, fake := newAsked(t, nil, llmtest.Reply{Text: "Once and only once.", Block: release})
			body := fmt.Sprintf(`{"sessionId":"s1","turnId":"t1","instruction":"Hello","stream":%t}`, stream)
			answers := w.crowd(t, 50, "POST", execute, body, func() {
				asked(t, fake, 1)
				close(release)
			})
			answers = append(answers, w.do(t, "POST", execute, body))
			alike(t, answers, 200)
			if n := len(fake.Requests()); n != 1 {
				t.Errorf("%d model calls", n)
			}
			p := w.do(t, "POST", execute, strings.Replace(body, "Hello", "Bye", 1)).want(t, agent.KindTurnConflict)
			if !strings.Contains(p.Detail, "instruction") || strings.Contains(p.Detail, "stream") {
				t.Errorf("the conflict does not name what differs: %s", p.Detail)
			}
		})
	}
}

func TestAgain_Continuations(t *testing.T) {
	prove.Rule(t, "AGN034-5-e")
	release := make(chan struct{})
	w, fake := newAsked(t, nil, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file"}, {ID: "c2", Name: "read_file"}}},
		llmtest.Reply{Text: "Read.", Block: release})
	w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","tools":[`+readFile+`]}`).wantStatus(t, 201)
	w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t1","instruction":"Read"}`).wantStatus(t, 200)
	body := `{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c1","executionMs":1,"resultJson":"{}"},{"toolCallId":"c2","executionMs":2,"errorMessage":"no"}]}`
	other := strings.NewReplacer(`"executionMs":1`, `"executionMs":9`, `"errorMessage":"no"`, `"resultJson":"1"`).Replace(body)
	conflict := func(when string) {
		p := w.do(t, "POST", execute, other).want(t, agent.KindTurnConflict)
		for _, want := range []string{"/toolResults/0/executionMs (c1)", "/toolResults/1/errorMessage (c2)", "/toolResults/1/resultJson (c2)"} {
			if !strings.Contains(p.Detail, want) {
				t.Errorf("%s: the conflict does not name %s: %s", when, want, p.Detail)
			}
		}
		if strings.Contains(p.Detail, "/toolResults/0/resultJson") {
			t.Errorf("%s: the conflict names what is the same: %s", when, p.Detail)
		}
	}
	answers := w.crowd(t, 50, "POST", execute, body, func() {
		asked(t, fake, 2)
		conflict("while it runs")
		close(release)
	})
	answers = append(answers, w.do(t, "POST", execute, body))
	alike(t, answers, 200)
	if n := len(fake.Requests()); n != 2 {
		t.Errorf("%d model calls", n)
	}
	conflict("when it is over")
}

func TestAgain_Cancels(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	w, fake := newAsked(t, nil, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Done."})
	running := make(chan answer, 1)
	go func() { running <- w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t1","instruction":"Hello"}`) }()
	asked(t, fake, 1)
	answers := w.crowd(t, 20, "POST", "/v1/sessions/s1/turns/t1/cancel", "", func() {})
	answers = append(answers, w.do(t, "POST", "/v1/sessions/s1/turns/t1/cancel", ""))
	alike(t, answers, 202)
	if got := decode[Turn](t, answers[0]).State; got != agent.TurnCancelled {
		t.Errorf("the turn is %s", got)
	}
	(<-running).want(t, agent.KindTurnCancelled)

	w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t2","instruction":"Hello"}`).wantStatus(t, 200)
	answers = w.crowd(t, 5, "POST", "/v1/sessions/s1/turns/t2/cancel", "", func() {})
	alike(t, answers, 202)
	if got := decode[Turn](t, answers[0]).State; got != agent.TurnCompleted {
		t.Errorf("a cancel made a completed turn %s", got)
	}
}

// A client whose turn is queued has its stream at once; one that wants no stream waits.
func TestQueue_AsClientsSeeIt(t *testing.T) {
	release := make(chan struct{})
	w, fake := newAsked(t, func(p *parts) { p.times.QueueLength = 2 },
		llmtest.Reply{Text: "One.", Block: release}, llmtest.Reply{Text: "Two."}, llmtest.Reply{Text: "Three."})
	if got := decode[Session](t, w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","concurrency":"queue"}`)).Concurrency; got != agent.ConcurrencyQueue {
		t.Errorf("the session's policy is %q", got)
	}
	turn := func(id string, stream bool) string {
		return fmt.Sprintf(`{"sessionId":"s1","turnId":"%s","instruction":"Hello","stream":%t}`, id, stream)
	}
	queued := func(id string) {
		t.Helper()
		for {
			if a := w.do(t, "GET", "/v1/sessions/s1/turns/"+id, ""); a.Code == 200 {
				if v := decode[Turn](t, a); v.State != agent.TurnAccepted || v.Deadline == nil {
					t.Errorf("the queued turn %s is %s, its deadline %v", id, v.State, v.Deadline)
				}
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("turn %s is not queued", id)
			}
			time.Sleep(time.Millisecond)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.do(t, "POST", execute, turn("t1", false)).wantStatus(t, 200) })
	asked(t, fake, 1)
	answers := make([]answer, 10)
	for i := range answers {
		wg.Go(func() { answers[i] = w.do(t, "POST", execute, turn("t2", true)) })
	}
	queued("t2")
	wg.Go(func() {
		if a := w.do(t, "POST", execute, turn("t3", false)); !strings.Contains(a.Body.String(), "Three.") {
			t.Errorf("the last turn is answered with %s", a.Body)
		}
	})
	queued("t3")
	full := w.do(t, "POST", execute, turn("t4", false))
	full.want(t, agent.KindTurnInProgress)
	close(release)
	wg.Wait()
	alike(t, answers, 200)
	events := parseSSE(t, answers[0].Body.String())
	if first, last := events[0], events[len(events)-1]; first.event != "turn.queued" || last.event != "turn.completed" {
		t.Errorf("the stream of the queued turn begins with %s and ends with %s", first.data, last.event)
	}
	if again := w.do(t, "GET", "/v1/sessions/s1/turns/t2/events", ""); again.Body.String() != answers[0].Body.String() {
		t.Errorf("read again, the stream is %s", again.Body)
	}
	if n := len(fake.Requests()); n != 3 {
		t.Errorf("%d model calls for three turns", n)
	}
}

func TestInterrupt_AsClientsSeeIt(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	w, fake := newAsked(t, nil, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Two."})
	w.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","concurrency":"interrupt"}`).wantStatus(t, 201)
	first := make(chan answer, 1)
	go func() {
		first <- w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t1","instruction":"Hello","stream":true}`)
	}()
	asked(t, fake, 1)
	second := w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t2","instruction":"Stop"}`)
	second.wantStatus(t, 200)
	if !strings.Contains(second.Body.String(), "Two.") {
		t.Errorf("the second turn is answered with %s", second.Body)
	}
	events := parseSSE(t, (<-first).Body.String())
	last := events[len(events)-1]
	if last.event != "turn.cancelled" {
		t.Errorf("the interrupted stream ends with %s: %s", last.event, last.data)
	}
	p := w.do(t, "POST", execute, `{"sessionId":"s1","turnId":"t1","instruction":"Hello","stream":false}`).want(t, agent.KindTurnConflict)
	if !strings.Contains(p.Detail, "stream") {
		t.Errorf("got %s", p.Detail)
	}
	if v := decode[Turn](t, w.do(t, "GET", "/v1/sessions/s1/turns/t1", "")); v.State != agent.TurnCancelled {
		t.Errorf("the interrupted turn is %s with %+v", v.State, v.Problem)
	}
}
