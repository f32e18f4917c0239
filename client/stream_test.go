package client_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/prove"
)

var hello = client.UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "hello"}

const (
	completed = `turn.completed "response":{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":"ab"}`
	waiting   = `turn.waiting "response":{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","toolCalls":[{"toolCallId":"c1","name":"read_file","argumentsJson":"{}"}]}`
)

// collect reads a stream into one word per event.
func collect(events iter.Seq2[client.Event, error]) (got []string, err error) {
	for e, err := range events {
		if err != nil {
			return got, err
		}
		s := fmt.Sprintf("%d %s", e.Sequence, e.Type)
		if e.Text != "" {
			s += " " + e.Text
		}
		got = append(got, s)
	}
	return got, nil
}

func want(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Errorf("stream: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestStream_WholeTurn(t *testing.T) {
	prove.Rule(t, "AGN034-4.7-c")
	c, f := serve(t, sse(1, "turn.started",
		`model.request "n":1,"canonicalSha256":"a","wireSha256":"b"`,
		`text.delta "text":"a"`, `text.delta "text":"b"`,
		`tool.started "toolCallId":"c1","name":"agent_change_mode"`,
		`tool.finished "toolCallId":"c1","name":"agent_change_mode","outcome":"ok","ms":4`,
		`mode.changed "previousMode":"general","mode":"ddr_authoring","branch":true,"reason":"r"`,
		completed))
	var last client.Event
	var change *client.ModeChange
	for e, err := range c.Stream(t.Context(), hello) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == client.EventModeChanged {
			change = e.ModeChange
		}
		if e.Type == client.EventToolFinished && (e.ToolCallID != "c1" || e.Ms != 4 || e.Outcome != "ok") {
			t.Errorf("tool.finished: %+v", e)
		}
		last = e
	}
	if diff := cmp.Diff(&client.ModeChange{PreviousMode: "general", Mode: "ddr_authoring", Branch: true, Reason: "r"}, change); diff != "" {
		t.Errorf("mode.changed (-want +got):\n%s", diff)
	}
	if last.Sequence != 8 || last.Response == nil || last.Response.PrimaryOutputText != "ab" {
		t.Errorf("last event: %+v", last)
	}
	if got := f.requests()[0].Body; got != `{"sessionId":"s1","turnId":"t1","instruction":"hello","stream":true}` {
		t.Errorf("body: %s", got)
	}
}

// The server died over text that it had shown: the numbers of that text are given
// again, and the reader is told so once.
func TestStream_GoesBackToTurnResumed(t *testing.T) {
	c, _ := serve(t,
		then(sse(1, "turn.started", "model.request", `text.delta "text":"lost"`, `text.delta "text":" too"`), drop),
		then(sse(3, `turn.resumed "replaceFrom":3`, `text.delta "text":"kept"`), drop),
		sse(3, `turn.resumed "replaceFrom":3`, `text.delta "text":"kept"`, completed),
	)
	got, err := collect(c.Stream(t.Context(), hello))
	want(t, got, err, "1 turn.started", "2 model.request", "3 text.delta lost", "4 text.delta  too",
		"3 turn.resumed", "4 text.delta kept", "5 turn.completed")
}

func TestStream_ResumesAfterTheLastEvent(t *testing.T) {
	c, f := serve(t,
		then(sse(1, "turn.started", `text.delta "text":"a"`), drop), // cut off
		drop, // cut off at once
		sse(2, `text.delta "text":"a"`, `text.delta "text":"b"`),                        // repeats one, then an orderly end
		then(sse(4, "turn.resumed \"replaceFrom\":2"), sse(6, `text.delta "text":"x"`)), // a gap
		sse(5, `text.delta "text":"c"`, completed, `text.delta "text":"never"`),
	)
	got, err := collect(c.Stream(t.Context(), hello))
	want(t, got, err, "1 turn.started", "2 text.delta a", "3 text.delta b", "4 turn.resumed", "5 text.delta c", "6 turn.completed")
	var reads []string
	for _, r := range f.requests()[1:] {
		reads = append(reads, r.Method+" "+r.URI+" "+r.LastEventID)
	}
	const events = "GET /v1/sessions/s1/turns/t1/events?after="
	if diff := cmp.Diff([]string{events + "2 2", events + "2 2", events + "3 3", events + "4 4"}, reads); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestStream_HalfAnEventIsNotDelivered(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(event(2, `text.delta "text":"a"`), "\n"))
	}
	c, _ := serve(t, then(sse(1, "turn.started"), cut), sse(2, `text.delta "text":"whole"`, completed))
	got, err := collect(c.Stream(t.Context(), hello))
	want(t, got, err, "1 turn.started", "2 text.delta whole", "3 turn.completed")
}

func TestStream_LostBeforeTheFirstEventPostsAgain(t *testing.T) {
	c, f := serve(t, drop, sse(1, "turn.started", completed))
	got, err := collect(c.Stream(t.Context(), hello))
	want(t, got, err, "1 turn.started", "2 turn.completed")
	if f.requests()[0] != f.requests()[1] {
		t.Errorf("requests differ: %+v", f.requests())
	}
}

func TestStream_GivesUpWithoutProgress(t *testing.T) {
	c, f := serve(t, then(sse(1, "turn.started"), drop), drop, drop, drop, drop)
	got, err := collect(c.Stream(t.Context(), hello))
	if !errors.Is(err, client.ErrConnectionLost) || len(got) != 1 || len(f.requests()) != 5 {
		t.Errorf("got %v, %v after %d requests", got, err, len(f.requests()))
	}
}

func TestStream_ProgressStartsTheCountAgain(t *testing.T) {
	script := []http.HandlerFunc{then(sse(1, "turn.started"), drop)}
	for i := 2; i < 12; i++ {
		script = append(script, drop, then(sse(i, `text.delta "text":"x"`), drop))
	}
	c, _ := serve(t, append(script, sse(12, completed))...)
	got, err := collect(c.Stream(t.Context(), hello))
	if err != nil || len(got) != 12 {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

func TestStream_ProblemEndsIt(t *testing.T) {
	c, _ := serve(t, answer(409, `{"status":409,"code":"turn_in_progress"}`))
	if _, err := collect(c.Stream(t.Context(), hello)); client.CodeOf(err) != client.CodeTurnInProgress {
		t.Errorf("got %v", err)
	}
	c, _ = serve(t, then(sse(1, "turn.started"), drop), answer(404, `{"status":404,"code":"not_found"}`))
	if _, err := collect(c.Stream(t.Context(), hello)); client.CodeOf(err) != client.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

func TestStream_FailedTurnIsAnEvent(t *testing.T) {
	c, _ := serve(t, sse(1, "turn.started", `turn.failed "problem":{"status":502,"code":"provider_failed","detail":"down"}`))
	var last client.Event
	for e, err := range c.Stream(t.Context(), hello) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Problem == nil || last.Problem.Code != client.CodeProviderFailed || last.Problem.Detail != "down" {
		t.Errorf("got %+v", last)
	}
}

func TestStream_ReaderMayLeave(t *testing.T) {
	gone := make(chan struct{})
	c, _ := serve(t, then(sse(1, "turn.started", `text.delta "text":"a"`), func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	}))
	for e := range c.Stream(t.Context(), hello) {
		if e.Type == client.EventTextDelta {
			break
		}
	}
	<-gone
}

func TestStream_NotAStream(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>hello</p>")
	})
	if _, err := collect(c.Stream(t.Context(), hello)); err == nil || !strings.Contains(err.Error(), "text/html") {
		t.Errorf("got %v", err)
	}
}

func TestStream_SilenceCountsAsABrokenConnection(t *testing.T) {
	silent := then(sse(1, "turn.started"), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			silent(w, r)
			return
		}
		sse(2, completed)(w, r)
	}))
	t.Cleanup(s.Close)
	c := connect(t, client.Config{URL: s.URL, IdleTimeout: 200 * time.Millisecond})
	got, err := collect(c.Stream(t.Context(), hello))
	want(t, got, err, "1 turn.started", "2 turn.completed")
}

func TestStream_EventTooLarge(t *testing.T) {
	s := httptest.NewServer(sse(1, "turn.started", `text.delta "text":"`+strings.Repeat("x", 5000)+`"`))
	t.Cleanup(s.Close)
	c := connect(t, client.Config{URL: s.URL, MaxBytes: 1000})
	if _, err := collect(c.Stream(t.Context(), hello)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("got %v", err)
	}
}

func TestStreamContinue(t *testing.T) {
	cont := client.ToolContinuation{SessionID: "s1", TurnID: "t1", ToolResults: []client.ToolResult{{ToolCallID: "c1"}}}
	t.Run("streamed", func(t *testing.T) {
		c, f := serve(t, then(sse(7, "model.request"), drop), sse(8, waiting))
		got, err := collect(c.StreamContinue(t.Context(), cont))
		want(t, got, err, "7 model.request", "8 turn.waiting")
		if f.requests()[1].URI != "/v1/sessions/s1/turns/t1/events?after=7" {
			t.Errorf("resumed at %s", f.requests()[1].URI)
		}
	})
	t.Run("in one piece", func(t *testing.T) {
		c, _ := serve(t, answer(200, final))
		got, err := collect(c.StreamContinue(t.Context(), cont))
		want(t, got, err, "0 turn.completed")
	})
}

func TestEvents_GoesOnPastAWait(t *testing.T) {
	c, f := serve(t, sse(3, waiting, `text.delta "text":"a"`, completed))
	got, err := collect(c.Events(t.Context(), "s1", "t1", 2))
	want(t, got, err, "3 turn.waiting", "4 text.delta a", "5 turn.completed")
	if f.requests()[0].URI != "/v1/sessions/s1/turns/t1/events?after=2" {
		t.Errorf("asked for %s", f.requests()[0].URI)
	}
}

func TestEvents_OfAWaitingTurnEndsWithTheServersStream(t *testing.T) {
	c, _ := serve(t, sse(1, "turn.started", waiting))
	got, err := collect(c.Events(t.Context(), "s1", "t1", 0))
	want(t, got, err, "1 turn.started", "2 turn.waiting")
}

func TestEvents_NothingMore(t *testing.T) {
	c, _ := serve(t, then(sse(1, waiting), drop), answer(204, ""))
	got, err := collect(c.Events(t.Context(), "s1", "t1", 0))
	want(t, got, err, "1 turn.waiting")
}

func TestEvents_CutOffInOrderIsTakenUpAgain(t *testing.T) {
	c, _ := serve(t, sse(6), sse(6, `text.delta "text":"a"`), sse(7, completed))
	got, err := collect(c.Events(t.Context(), "s1", "t1", 5))
	want(t, got, err, "6 text.delta a", "7 turn.completed")
}
