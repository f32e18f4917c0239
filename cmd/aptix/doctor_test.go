package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestCheckProvider(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the key went to another host: %v", r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, tc := range map[string]struct {
		handle   http.HandlerFunc
		want     string
		wantFail bool
	}{
		"answers":       {answer(200, `{"data":[{"id":"other"},{"id":"m1"}]}`), "answers and has m1", false},
		"no such model": {answer(200, `{"data":[{"id":"other"}]}`), `has no model "m1"`, true},
		"wrong key":     {answer(401, `{}`), "refuses the key (401 Unauthorized)", true},
		"no list":       {answer(404, `404 page not found`), "answers, but has no list of models", false},
		"a web page":    {answer(200, `<html>`), "does the address end in /v1?", true},
		"broken":        {answer(500, ``), "answers 500 Internal Server Error", true},
		"redirect":      {http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, "answers 302 Found", true},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				tc.handle(w, r)
			}))
			t.Cleanup(s.Close)
			cfg := config.Config{Provider: config.ProviderOpenAI, Model: "m1",
				OpenAI:        config.OpenAI{BaseURL: s.URL + "/v1/", APIKey: secret.New("sk-1"), Organization: "o", Project: "p"},
				AgentContexts: []config.AgentContext{{ID: "a", ConversationContexts: []config.ConversationContext{{ID: "c"}}}},
			}
			found, err := checkProvider(t.Context(), cfg)
			if (err != nil) != tc.wantFail {
				t.Errorf("got %q, %v", found, err)
			}
			if err != nil {
				found = err.Error()
			}
			if !strings.Contains(found, tc.want) || strings.Contains(found, "sk-1") {
				t.Errorf("got %q, want %q", found, tc.want)
			}
			if got.Method != http.MethodGet || got.URL.Path != "/v1/models" || got.Header.Get("Authorization") != "Bearer sk-1" ||
				got.Header.Get("OpenAI-Organization") != "o" || got.Header.Get("OpenAI-Project") != "p" {
				t.Errorf("asked %s %s with %v", got.Method, got.URL, got.Header)
			}
		})
	}
}

func TestCheckFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("not a database, and long enough to be seen as none by its header"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := checkFile(t.Context(), filepath.Join(dir, "new", "deeper", "aptix.db")); err != nil || !strings.Contains(found, "will be made") {
		t.Errorf("a new file: %q, %v", found, err)
	}
	if found, err := checkFile(t.Context(), file); err == nil {
		t.Errorf("something else than a data file: %q", found)
	}
	if found, err := checkFile(t.Context(), filepath.Join(file, "aptix.db")); err == nil {
		t.Errorf("under a file: %q", found)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "new" || strings.HasPrefix(e.Name(), ".aptix") {
			t.Errorf("looking left %s behind", e.Name())
		}
	}
}
