package floor_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aptixhq/aptix/bench/floor"
	"github.com/aptixhq/aptix/bench/mock"
)

// model returns a mock and what it was asked.
func model(t *testing.T) (string, func() []string) {
	t.Helper()
	handler, err := mock.New(mock.Config{Tokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", res.Status, answer, err)
	}
	return string(answer)
}

func TestProxy_PassesOn(t *testing.T) {
	address, asked := model(t)
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(floor.Proxy(target))
	t.Cleanup(srv.Close)
	const body = `{"stream":true,"input":"hi"}`
	if got := post(t, srv.URL+"/v1/responses", body); strings.Count(got, "event: response.output_text.delta") != 2 {
		t.Errorf("got %s", got)
	}
	if got := asked(); len(got) != 1 || got[0] != body {
		t.Errorf("asked %q, want %q", got, body)
	}
}

func TestServer_KeepsTheConversation(t *testing.T) {
	for _, group := range []bool{false, true} {
		address, asked := model(t)
		f, err := floor.New(floor.Config{Model: address, DB: filepath.Join(t.TempDir(), "floor.db"), Group: group})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(f)
		const text = "event: delta\ndata: {\"text\":\" lorem\"}\n\nevent: delta\ndata: {\"text\":\" ipsum\"}\n\nevent: done\ndata: {}\n\n"
		for _, body := range []string{`{"session":"s","text":"CALL_TOOL get_weather"}`, `{"session":"other","text":"x"}`, `{"session":"s","text":"again"}`} {
			if got := post(t, srv.URL+"/turn", body); got != text {
				t.Errorf("group %v, %s: got %q, want %q", group, body, got, text)
			}
		}
		srv.Close()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		got := asked()
		if len(got) != 4 {
			t.Fatalf("the model was asked %d times, want 4: one turn has a tool", len(got))
		}
		last := got[3]
		for _, want := range []string{"CALL_TOOL get_weather", "function_call_output", `{"content":" lorem ipsum","role":"assistant"},{"content":"again","role":"user"}]}`} {
			if !strings.Contains(last, want) {
				t.Errorf("group %v: the last request lacks %s: %s", group, want, last)
			}
		}
		if strings.Contains(last, `"x"`) {
			t.Errorf("group %v: the last request has another session's words: %s", group, last)
		}
	}
}

func TestServer_TellsOfAModelThatFails(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	f, err := floor.New(floor.Config{Model: srv.URL, DB: filepath.Join(t.TempDir(), "floor.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest("POST", "/turn", strings.NewReader(`{"session":"s","text":"x"}`)))
	if got := w.Body.String(); !strings.HasPrefix(got, "event: error\n") {
		t.Errorf("got %q, want an error", got)
	}
}
