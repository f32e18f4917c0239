package llm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestAsk_ReadsADocument(t *testing.T) {
	c := serve(t, llm.Config{}, answer("application/json; charset=utf-8", document))
	g := ask(t, c, false)
	want(t, g.Err, nil)
	want(t, g.Deltas, []string(nil))
	want(t, g.Response, &llm.Response{
		ID: "resp_1", Status: "completed", Items: raw(itemText, itemCall),
		Usage: agent.Usage{InputTokens: 11, OutputTokens: 7, TotalTokens: 18, CachedTokens: 3, ReasoningTokens: 2},
	})
	want(t, g.Response.Text(), "Hello, <world> & é")
	want(t, g.Response.Calls(), []agent.ToolCall{{ID: "call_1", Name: "read_file", Arguments: `{"path":"a.go"}`}})
}

func TestAsk_ReadsAStream(t *testing.T) {
	prove.Rule(t, "AGN003-7-c")
	c := serve(t, llm.Config{}, answer("text/event-stream; charset=utf-8", sse(sixty()...)))
	g := ask(t, c, true)
	want(t, g.Err, nil)
	want(t, g.text(), spoken())
	want(t, len(g.Deltas), 48)
	want(t, g.Response.Items, raw(itemText, itemCall))
	want(t, g.Response.Usage.TotalTokens, int64(18))
}

func TestAsk_ReadsTheAnswerAsWhatItCallsItself(t *testing.T) {
	t.Run("a document instead of a stream", func(t *testing.T) {
		g := ask(t, serve(t, llm.Config{}, answer("application/json", document)), true)
		want(t, g.Err, nil)
		want(t, g.Deltas, []string{"Hello, <world> & é"})
		want(t, g.Response.ID, "resp_1")
	})
	t.Run("a stream instead of a document", func(t *testing.T) {
		g := ask(t, serve(t, llm.Config{}, answer("text/event-stream", sse(sixty()...))), false)
		want(t, g.Err, nil)
		want(t, g.Response.ID, "resp_1")
	})
}

func TestAsk_PostsTheBodyWithItsHeaders(t *testing.T) {
	type request struct {
		Method, Path, Body string
		Header             map[string]string
	}
	var got request
	c := serve(t, llm.Config{Organization: "org-1", Project: "proj-1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.Path, string(body), map[string]string{}}
		for _, h := range []string{"Authorization", "OpenAI-Organization", "OpenAI-Project", "Accept", "Content-Type", "User-Agent", "Accept-Encoding", "Idempotency-Key"} {
			got.Header[h] = r.Header.Get(h)
		}
		answer("application/json", document)(w, r)
	})
	for stream, accept := range map[bool]string{false: "application/json", true: "text/event-stream"} {
		want(t, ask(t, c, stream).Err, nil)
		want(t, got, request{"POST", "/v1/responses", `{"model":"m","input":"u"}`, map[string]string{
			"Authorization": "Bearer " + key, "OpenAI-Organization": "org-1", "OpenAI-Project": "proj-1", "Accept": accept,
			"Content-Type": "application/json", "User-Agent": "aptix", "Accept-Encoding": "", "Idempotency-Key": "",
		}})
	}
}

func TestAsk_SendsNoEmptyCredentials(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Authorization", "OpenAI-Organization", "OpenAI-Project"} {
			if _, ok := r.Header[http.CanonicalHeaderKey(h)]; ok {
				t.Errorf("header %s is sent", h)
			}
		}
		answer("application/json", document)(w, r)
	}))
	defer s.Close()
	c := llm.New(llm.Config{BaseURL: s.URL})
	defer c.Close()
	want(t, ask(t, c, false).Err, nil)
}

func TestAsk_ReusesItsConnection(t *testing.T) {
	var opened atomic.Int32
	n := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		switch n % 3 {
		case 0:
			answer("application/json", document)(w, r)
		case 1:
			answer("text/event-stream", sse(sixty()...)+"data: [DONE]\n\n")(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := llm.New(llm.Config{BaseURL: s.URL})
	defer c.Close()
	for range 9 {
		ask(t, c, true)
	}
	want(t, opened.Load(), int32(1))
}

func TestAsk_PostsOnceForEachIterationAndNeverAgain(t *testing.T) {
	var posts atomic.Int32
	c := serve(t, llm.Config{}, func(http.ResponseWriter, *http.Request) {
		posts.Add(1)
		panic(http.ErrAbortHandler) // the connection drops before a status line
	})
	seq := c.Ask(t.Context(), &llm.Wire{Head: `{}`}, true)
	want(t, posts.Load(), int32(0))
	for range 2 {
		for _, err := range seq {
			want(t, agent.KindOf(err), agent.KindProviderFailed)
		}
	}
	want(t, posts.Load(), int32(2))
}

func TestAsk_FollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the prompt went elsewhere") }))
	defer elsewhere.Close()
	c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	want(t, agent.FaultOf(ask(t, c, false).Err).Message, "The provider answered 307 Temporary Redirect.")
}

func TestAsk_LeavingTheIterationClosesTheConnection(t *testing.T) {
	closed := make(chan struct{})
	c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		answer("text/event-stream", sse(sixty()[:20]...))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(closed)
	})
	for ev, err := range c.Ask(t.Context(), &llm.Wire{Head: `{}`}, true) {
		want(t, err, nil)
		want(t, ev.Delta, "w0 ")
		break
	}
	<-closed
}

func TestAsk_TheEndOfItsContextIsNoFaultOfTheProvider(t *testing.T) {
	stall := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if n > 0 {
				answer("text/event-stream", sse(sixty()[:n]...))(w, r)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	check := func(t *testing.T, err, wantErr error) {
		t.Helper()
		if !errors.Is(err, wantErr) || agent.KindOf(err) != agent.KindInternal {
			t.Errorf("got %v (%s), want %v", err, agent.KindOf(err), wantErr)
		}
	}
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range serve(t, llm.Config{}, stall(0)).Ask(ctx, &llm.Wire{}, true) {
			check(t, err, context.Canceled)
		}
	})
	t.Run("cancelled in the middle of a stream", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range serve(t, llm.Config{}, stall(10)).Ask(ctx, &llm.Wire{}, true) {
			cancel()
			last = err
		}
		check(t, last, context.Canceled)
	})
	t.Run("cancelled while the answer is awaited", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		for _, err := range c.Ask(ctx, &llm.Wire{}, false) {
			check(t, err, context.Canceled)
		}
	})
	t.Run("its deadline passes", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		for _, err := range serve(t, llm.Config{}, stall(0)).Ask(ctx, &llm.Wire{}, false) {
			check(t, err, context.DeadlineExceeded)
		}
	})
}

func TestAsk_UnreachableProvider(t *testing.T) {
	for name, base := range map[string]string{
		"nobody listens": "http://127.0.0.1:1/v1",
		"no URL":         "http://bad host/",
		"no scheme":      "secret.example/v1",
	} {
		t.Run(name, func(t *testing.T) {
			c := llm.New(llm.Config{BaseURL: base, APIKey: secret.New(key)})
			defer c.Close()
			err := ask(t, c, false).Err
			want(t, agent.FaultOf(err), agent.Fault{Kind: agent.KindProviderFailed, Message: "The provider could not be reached; try again later."})
			if strings.Contains(err.Error(), key) {
				t.Errorf("%v shows the key", err)
			}
		})
	}
}
