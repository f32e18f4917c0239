package config_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A whole folder goes to an embeddings API only when a model is named, and a key only to
// the address that it was set for.
func TestEmbeddings_WhereTextsAndKeysGo(t *testing.T) {
	provider := map[string]string{"OPENAI_API_KEY": "sk-provider", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
	with := func(more ...string) map[string]string {
		env := map[string]string{}
		for k, v := range provider {
			env[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for name, tc := range map[string]struct {
		env              map[string]string
		model, base, key string
	}{
		"no model":              {with(), "", "", ""},
		"a model":               {with("APTIX_EMBEDDINGS_MODEL", "m"), "m", "http://127.0.0.1:1/v1", "sk-provider"},
		"a model and a key":     {with("APTIX_EMBEDDINGS_MODEL", "m", "APTIX_EMBEDDINGS_API_KEY", "sk-own"), "m", "http://127.0.0.1:1/v1", "sk-own"},
		"a model elsewhere":     {with("APTIX_EMBEDDINGS_MODEL", "m", "APTIX_EMBEDDINGS_BASE_URL", "http://127.0.0.1:2/v1"), "m", "http://127.0.0.1:2/v1", ""},
		"elsewhere, with a key": {with("APTIX_EMBEDDINGS_MODEL", "m", "APTIX_EMBEDDINGS_BASE_URL", "http://127.0.0.1:2/v1", "APTIX_EMBEDDINGS_API_KEY", "sk-own"), "m", "http://127.0.0.1:2/v1", "sk-own"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "", tc.env, nil)
			e := must(t, c, err).Embeddings
			if e.Model != tc.model || e.BaseURL != tc.base || e.APIKey.Reveal() != tc.key {
				t.Errorf("got %s at %s with %q, want %s at %s with %q", e.Model, e.BaseURL, e.APIKey.Reveal(), tc.model, tc.base, tc.key)
			}
		})
	}
}

func TestRetrieval_Problems(t *testing.T) {
	for setting, want := range map[string]string{
		"retrieval: {search: all}":                                 `retrieval.search: "all" is unknown`,
		"retrieval: {chunks: 0}":                                   "retrieval.chunks: want 1 to 100",
		"retrieval: {bytes: 2000000}":                              "retrieval.bytes: want 1 to 1048576",
		"retrieval: {deadline: 0s}":                                "retrieval.deadline: must be more than zero",
		"retrieval: {depth: 3}":                                    "unknown setting retrieval.depth",
		"embeddings: {baseURL: http://h/v1}":                       "embeddings.model: name the model",
		"embeddings: {model: m, baseURL: ftp://h}":                 "embeddings.baseURL: want http:// or https://",
		"embeddings: {model: m, baseURL: http://u:sk-canary@h/v1}": "the key goes into APTIX_EMBEDDINGS_API_KEY",
		"embeddings: {model: m, batch: 0}":                         "embeddings.batch: want 1 to 2048",
		"embeddings: {model: m, timeout: 0s}":                      "embeddings.timeout: must be more than zero",
		"embeddings: {model: m, attempts: 0}":                      "embeddings.attempts: must be more than zero",
		"embeddings: {model: m, apiKey: 'sk canary'}":              "embeddings.apiKey: the key holds a space",
		"database: postgres://h/d\nretrieval: {search: vector}":    "retrieval.search: indexes in PostgreSQL have no vectors",
	} {
		if _, err := load(t, setting, nil, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %q", setting, err, want)
		}
	}
}

func TestIndexPath_BesideTheDataFile(t *testing.T) {
	for database, want := range map[string]string{"": filepath.Join("aptix-data", "index.db"), "/var/lib/x.db": "/var/lib/index.db"} {
		c, err := load(t, "", nil, map[string]string{"database": database})
		if got := must(t, c, err).IndexPath(); got != filepath.FromSlash(want) {
			t.Errorf("database %q: %s, want %s", database, got, want)
		}
	}
}
