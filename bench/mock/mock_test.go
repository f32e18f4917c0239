package mock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/bench/mock"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// serve returns a client of ours that talks to a mock.
func serve(t *testing.T, cfg mock.Config) *llm.Client {
	t.Helper()
	handler, err := mock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	c := llm.New(llm.Config{BaseURL: srv.URL + "/v1"})
	t.Cleanup(c.Close)
	return c
}

// ask returns the whole answer and its deltas.
func ask(ctx context.Context, c *llm.Client, body string, stream bool) (*llm.Response, []string, error) {
	var deltas []string
	for ev, err := range c.Ask(ctx, &llm.Wire{Head: body}, stream) {
		if err != nil {
			return nil, nil, err
		}
		if ev.Response != nil {
			return ev.Response, deltas, nil
		}
		deltas = append(deltas, ev.Delta)
	}
	return nil, nil, errors.New("no response")
}

func mustAsk(t *testing.T, c *llm.Client, body string, stream bool) (*llm.Response, []string) {
	t.Helper()
	r, deltas, err := ask(t.Context(), c, body, stream)
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return r, deltas
}

func TestServer_StreamsText(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Millisecond} {
		c := serve(t, mock.Config{Tokens: 7, Gap: gap})
		body := `{"model":"m","stream":true,"input":"hi"}`
		asked := time.Now()
		r, deltas := mustAsk(t, c, body, true)
		text := " lorem ipsum dolor elitr magna justo lorem"
		if gap > 0 && len(r.Text()) == len(text) { // the first token says when it was due
			began, ok := mock.Began([]byte(r.Text()), time.Now())
			if !ok || began.Before(asked.Add(-time.Millisecond)) || began.After(time.Now()) {
				t.Errorf("%q was begun at %s (%t), and asked for at %s", r.Text(), began, ok, asked)
			}
			text = r.Text()[:mock.TokenBytes] + text[mock.TokenBytes:]
		}
		if r.Text() != text || r.Status != "completed" || len(deltas) != 7 || strings.Join(deltas, "") != text || len(text) != 7*mock.TokenBytes {
			t.Errorf("gap %s: %s %q in %q, want 7 tokens: %q", gap, r.Status, r.Text(), deltas, text)
		}
		in := int64(len(body)+3) / 4
		if want := (agent.Usage{InputTokens: in, OutputTokens: 7, TotalTokens: in + 7}); r.Usage != want {
			t.Errorf("usage %+v, want %+v", r.Usage, want)
		}
		if again, _ := mustAsk(t, c, body, true); again.ID == r.ID {
			t.Errorf("two responses have the id %s", r.ID)
		}
	}
}

func TestServer_AnswersInOnePiece(t *testing.T) {
	c := serve(t, mock.Config{Tokens: 2})
	if r, _ := mustAsk(t, c, `{"model":"m","input":"hi"}`, false); r.Text() != " lorem ipsum" || r.Usage.OutputTokens != 2 {
		t.Errorf("%q, %+v", r.Text(), r.Usage)
	}
}

func TestServer_CallsATool(t *testing.T) {
	c := serve(t, mock.Config{})
	first := `{"model":"m","stream":true,"input":[{"role":"user","content":"CALL_TOOL agent_list_modes\n"}]}`
	r, _ := mustAsk(t, c, first, true)
	calls := r.Calls()
	if len(calls) != 1 || calls[0].Name != "agent_list_modes" || string(calls[0].Arguments) != "{}" {
		t.Fatalf("calls %+v", calls)
	}
	for name, body := range map[string]string{
		"replayed": fmt.Sprintf(`{"stream":true,"input":[{"role":"user","content":"CALL_TOOL agent_list_modes\n"},{"type":"function_call_output","call_id":%q,"output":"x"}]}`, calls[0].ID),
		"chained":  fmt.Sprintf(`{"stream":true,"previous_response_id":%q,"input":[{"type":"function_call_output","call_id":%q,"output":"x"}]}`, r.ID, calls[0].ID),
	} {
		if r, _ := mustAsk(t, c, body, true); len(r.Calls()) != 0 || r.Text() == "" {
			t.Errorf("%s: %q and calls %+v, want text", name, r.Text(), r.Calls())
		}
	}
}

func TestServer_UsageGrowsAlongAChain(t *testing.T) {
	c := serve(t, mock.Config{Tokens: 3})
	previous, total := "", int64(0)
	for range 3 {
		body := `{"stream":true,"input":"hi"` + previous + `}`
		r, _ := mustAsk(t, c, body, true)
		in := total + int64(len(body)+3)/4
		if want := (agent.Usage{InputTokens: in, OutputTokens: 3, TotalTokens: in + 3}); r.Usage != want {
			t.Errorf("usage %+v, want %+v", r.Usage, want)
		}
		previous, total = fmt.Sprintf(`,"previous_response_id":%q`, r.ID), r.Usage.TotalTokens
	}
}

func TestServer_RefusesAResponseItNeverGave(t *testing.T) {
	c := serve(t, mock.Config{})
	_, _, err := ask(t.Context(), c, `{"stream":true,"previous_response_id":"resp_x","input":"hi"}`, true)
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("got %v, want that it was not found", err)
	}
}

// What OpenAI's own client reads is the measure of a valid stream.
func TestServer_StreamIsWhatAStockClientReads(t *testing.T) {
	handler, err := mock.New(mock.Config{Tokens: 3})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/responses", strings.NewReader(`{"stream":true,"input":"hi"}`)))
	var got []string
	for line := range bytes.Lines(w.Body.Bytes()) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e responses.ResponseStreamEventUnion
		if err := json.Unmarshal(data, &e); err != nil || e.AsAny() == nil {
			t.Fatalf("%s: %v", data, err)
		}
		got = append(got, strings.TrimPrefix(e.Type, "response."))
	}
	want := []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
		"output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestServer_CountsWhatItSaw(t *testing.T) {
	handler, err := mock.New(mock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"input":"hi"}`
	for range 2 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/responses", strings.NewReader(body)))
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/stats", nil))
	var got mock.Stats
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want := (mock.Stats{Requests: 2, Bytes: int64(2 * len(body)), MaxOpen: 1}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

// A reader that does not read holds up its own stream only, and gets all of it when it does.
func TestServer_PacesEachStreamForItself(t *testing.T) {
	const tokens = 3000
	handler, err := mock.New(mock.Config{Tokens: tokens, Gap: time.Millisecond / 4})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // less than a stream
		return ctx
	}
	srv.Start()
	defer srv.Close()
	open := func() net.Conn {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		body := `{"stream":true,"input":"hi"}`
		if _, err := fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	text := func(conn net.Conn) int {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Contains(all, []byte("response.completed")) {
			t.Errorf("the stream ends without its end: %v", err)
		}
		return bytes.Count(all, []byte("event: response.output_text.delta\n"))
	}
	stalled := open()
	start := time.Now()
	if n := text(open()); n != tokens {
		t.Errorf("got %d tokens, want %d", n, tokens)
	}
	if took := time.Since(start); took < (tokens-1)*time.Millisecond/4 {
		t.Errorf("the stream took %s, less than its tokens are apart", took)
	}
	if n := text(stalled); n != tokens {
		t.Errorf("got %d tokens behind a stall, want %d", n, tokens)
	}
}

func TestBegan(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	for _, tt := range []struct {
		text string
		at   time.Time
		ok   bool
	}{
		{mock.Stamp(now), now, true},
		{mock.Stamp(now) + " ipsum", now, true},
		{mock.Stamp(now.Add(-30 * time.Minute)), now.Add(-30 * time.Minute), true},
		{" lorem", time.Time{}, false},
		{"-00001", time.Time{}, false},
		{"0000", time.Time{}, false},
	} {
		if at, ok := mock.Began([]byte(tt.text), now); ok != tt.ok || !at.Equal(tt.at) {
			t.Errorf("%q: %s, %t, want %s, %t", tt.text, at, ok, tt.at, tt.ok)
		}
	}
}
