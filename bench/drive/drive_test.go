package drive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
)

// answering returns a driver of a server that always answers so; its text has 4 bytes.
func answering(t *testing.T, p drive.Protocol, status int, body string) *drive.Driver {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	d := drive.New(drive.Config{URL: srv.URL, Protocol: p, AnswerBytes: 4})
	t.Cleanup(d.Close)
	return d
}

func TestTurn_CountsOnlyWhenItIsWhole(t *testing.T) {
	const first, second, done = "id: 1\nevent: text.delta\ndata: {\"text\":\"ab\"}\n\n", "id: 2\nevent: text.delta\ndata: {\"text\":\"cd\"}\n\n", "id: 3\nevent: turn.completed\ndata: {}\n\n"
	tests := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"whole", 200, first + second + done, ""},
		{"comments", 200, ": hi\n\n" + first + ": still here\n\n" + second + done, ""},
		{"an error", 503, `{"title":"busy"}`, "503 Service Unavailable: {\"title\":\"busy\"}"},
		{"failed", 200, first + "id: 2\nevent: turn.failed\ndata: {\"problem\":1}\n\n", `last event is turn.failed {"problem":1}`},
		{"nothing", 200, "", "ends without turn.completed"},
		{"an event lost", 200, first + done, "event 2 has the id 3"},
		{"text lost", 200, first + strings.ReplaceAll(done, "3", "2"), "2 bytes, want 4"},
		{"cut", 200, first + second + "id: 3\nevent: turn.completed\n", "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			took, err := answering(t, drive.Aptix(), tt.status, tt.body).NewSession().Turn(t.Context())
			if tt.want == "" && (err != nil || took <= 0) {
				t.Errorf("got %s, %v", took, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

const whole = "event: delta\ndata: {\"text\":\"ab\"}\n\nevent: delta\ndata: {\"text\":\"cd\"}\n\nevent: done\ndata: {}\n\n"

func TestClosed(t *testing.T) {
	d := answering(t, drive.Floor(), 200, whole)
	got, err := d.Closed(t.Context(), 3, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Turns) < 3 || got.Elapsed < 50*time.Millisecond {
		t.Errorf("%d turns in %s", len(got.Turns), got.Elapsed)
	}
}

func TestClosed_EndsWithTheFirstFailure(t *testing.T) {
	var first atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(w, "boom")
			return
		}
		_, _ = fmt.Fprint(w, whole)
	}))
	t.Cleanup(srv.Close)
	d := drive.New(drive.Config{URL: srv.URL, Protocol: drive.Floor(), AnswerBytes: 4})
	t.Cleanup(d.Close)
	if _, err := d.Closed(t.Context(), 3, time.Hour); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want what the server said", err)
	}
}

func TestClosed_EndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	d := answering(t, drive.Floor(), 200, whole)
	if _, err := d.Closed(ctx, 2, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestResponses_SendsTheConversation(t *testing.T) {
	bodies := make(chan string, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		_ = r.Write(&b)
		bodies <- b.String()
		_, _ = fmt.Fprint(w, "event: response.output_text.delta\ndata: {\"delta\":\"a\\\"b\"}\n\nevent: response.completed\ndata: {}\n\n")
	}))
	t.Cleanup(srv.Close)
	s := drive.New(drive.Config{URL: srv.URL, Protocol: drive.Responses(), AnswerBytes: 4, Tool: "CALL x"}).NewSession()
	for range 2 {
		if _, err := s.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-bodies
	second := <-bodies
	for _, want := range []string{`{"role":"assistant","content":"a\"b"},{"role":"user","content":"CALL x\nQuestion number 2`, `Question number 1`} {
		if !strings.Contains(second, want) {
			t.Errorf("the second request lacks %s: %s", want, second)
		}
	}
}

func TestStreams(t *testing.T) {
	known := true
	pace := drive.Pace{Tokens: 2, TokenBytes: 2, Gap: time.Millisecond, Began: func(text []byte, now time.Time) (time.Time, bool) {
		return now.Add(-5 * time.Second), known && string(text) == "ab"
	}}
	half := make(chan bool, 1)
	d := answering(t, drive.Floor(), 200, whole)
	got := d.Streams(t.Context(), 5, 20*time.Millisecond, pace, func() {
		time.Sleep(100 * time.Millisecond) // longer than the streams take
		half <- true
	})
	if got.Err != nil || got.Failed != 0 || got.Lost != 0 || len(got.Delays) != 10 || len(got.Firsts) != 5 || len(got.Ends) != 5 || len(half) != 1 {
		t.Errorf("got %+v", got)
	}
	// The text is late for the model, which began five seconds before; the turn is not.
	for _, late := range got.Delays {
		if late < 4*time.Second {
			t.Errorf("text came %s after the model gave it, want some 5s", late)
		}
	}
	for _, late := range append(got.Firsts, got.Ends...) {
		if late > 4*time.Second {
			t.Errorf("a turn was late by %s, and took no time", late)
		}
	}
	cut := answering(t, drive.Floor(), 200, whole[:len("event: delta\ndata: {\"text\":\"ab\"}\n\n")])
	if got := cut.Streams(t.Context(), 5, 0, pace, func() {}); got.Err == nil || got.Failed != 5 || got.Lost != 5 {
		t.Errorf("cut streams: %+v, want 5 failed and 5 tokens lost", got)
	}
	known = false
	if got := d.Streams(t.Context(), 2, 0, pace, func() {}); got.Err == nil || got.Failed != 2 {
		t.Errorf("text without a time: %+v, want 2 failed", got)
	}
}

func TestQuantile(t *testing.T) {
	ds := []time.Duration{3, 1, 2, 4}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := drive.Quantile(ds, q); got != want {
			t.Errorf("Quantile(%g) = %d, want %d", q, got, want)
		}
	}
	if got := drive.Quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing %d", got)
	}
}
