package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/secret"
)

// RetrievalSearch says how the indexed documents are searched for a turn.
type RetrievalSearch string

// The ways of searching.
const (
	SearchHybrid  RetrievalSearch = "hybrid" // by words and by vectors
	SearchLexical RetrievalSearch = "lexical"
	SearchVector  RetrievalSearch = "vector"
	SearchOff     RetrievalSearch = "off"
)

// Retrieval says what a turn is given of the indexed documents.
type Retrieval struct {
	Search RetrievalSearch `koanf:"search"`
	// Chunks is how many passages a turn gets at most, and Bytes bounds their texts
	// together.
	Chunks int `koanf:"chunks"`
	Bytes  int `koanf:"bytes"`
	// Deadline bounds the search; the turn goes on without when it is over.
	Deadline time.Duration `koanf:"deadline"`
}

// Embeddings says what makes the vectors of an index. Without a model they are made
// offline.
type Embeddings struct {
	// BaseURL is the root of an API that has /embeddings; that of the provider when empty.
	BaseURL string `koanf:"baseURL"`
	Model   string `koanf:"model"`
	// APIKey is the provider's when empty and BaseURL is, too.
	APIKey secret.Text `koanf:"apiKey"`
	// Batch is how many texts go into one request.
	Batch int `koanf:"batch"`
	// Timeout bounds one request, and Attempts is how often it is sent at most.
	Timeout  time.Duration `koanf:"timeout"`
	Attempts int           `koanf:"attempts"`
}

// retrievalDefaults are the values of both that nobody has to set.
func retrievalDefaults() (retrieval, embeddings map[string]any) {
	return map[string]any{"search": string(SearchHybrid), "chunks": 6, "bytes": 20 << 10, "deadline": "2s"},
		map[string]any{"batch": 64, "timeout": "30s", "attempts": 3}
}

// deriveEmbeddings fills in the provider's address and key. A key goes to no other
// address than the one that it was set for.
func (c *Config) deriveEmbeddings() {
	e := &c.Embeddings
	if e.Model == "" || e.BaseURL != "" {
		return
	}
	e.BaseURL = c.OpenAI.BaseURL
	c.sources["embeddings.baseURL"] = Source{Kind: FromDefault, Why: "that is openai.baseURL"}
	if e.APIKey.IsZero() {
		e.APIKey = c.OpenAI.APIKey
		c.sources["embeddings.apiKey"] = Source{Kind: FromDefault, Why: "that is openai.apiKey"}
	}
}

// IndexPath returns the path of the index file, beside the data file.
func (c Config) IndexPath() string {
	return filepath.Join(filepath.Dir(c.DatabasePath()), "index.db")
}

func retrievalSettings() []setting {
	shown := func(c Config, value string) string {
		if c.Embeddings.Model == "" {
			return "" // nothing is asked
		}
		return value
	}
	return []setting{
		{key: "retrieval.search", env: "APTIX_RETRIEVAL", show: func(c Config) string { return string(c.Retrieval.Search) }},
		{key: "retrieval.chunks", show: func(c Config) string { return fmt.Sprint(c.Retrieval.Chunks) }},
		{key: "retrieval.bytes", show: func(c Config) string { return fmt.Sprint(c.Retrieval.Bytes) }},
		{key: "retrieval.deadline", show: func(c Config) string { return c.Retrieval.Deadline.String() }},
		{key: "embeddings.model", env: "APTIX_EMBEDDINGS_MODEL", show: func(c Config) string { return cmp.Or(c.Embeddings.Model, "offline, by hashing") }},
		{key: "embeddings.baseURL", env: "APTIX_EMBEDDINGS_BASE_URL", show: func(c Config) string { return shown(c, address(secret.New(c.Embeddings.BaseURL))) }},
		{key: "embeddings.apiKey", env: "APTIX_EMBEDDINGS_API_KEY", inFile: true, show: func(c Config) string { return shown(c, c.Embeddings.APIKey.String()) }},
		{key: "embeddings.batch", show: func(c Config) string { return shown(c, fmt.Sprint(c.Embeddings.Batch)) }},
		{key: "embeddings.timeout", show: func(c Config) string { return shown(c, c.Embeddings.Timeout.String()) }},
		{key: "embeddings.attempts", show: func(c Config) string { return shown(c, fmt.Sprint(c.Embeddings.Attempts)) }},
	}
}

func (r Retrieval) problems() Problems {
	var p Problems
	searches := []RetrievalSearch{SearchHybrid, SearchLexical, SearchVector, SearchOff}
	if !slices.Contains(searches, r.Search) {
		p = append(p, fmt.Sprintf("retrieval.search: %q is unknown; want hybrid, lexical, vector or off", r.Search))
	}
	if r.Chunks < 1 || r.Chunks > 100 {
		p = append(p, "retrieval.chunks: want 1 to 100")
	}
	if r.Bytes < 1 || r.Bytes > 1<<20 {
		p = append(p, "retrieval.bytes: want 1 to 1048576")
	}
	if r.Deadline <= 0 {
		p = append(p, "retrieval.deadline: must be more than zero")
	}
	return p
}

func (e Embeddings) problems() Problems {
	var p Problems
	if e.Model == "" {
		if e.BaseURL != "" {
			p = append(p, "embeddings.model: name the model that embeddings.baseURL serves")
		}
		return p
	}
	p = append(p, addressProblems("embeddings.baseURL", e.BaseURL, "APTIX_EMBEDDINGS_API_KEY")...)
	if strings.ContainsAny(e.APIKey.Reveal(), " \t\r\n") {
		p = append(p, "embeddings.apiKey: the key holds a space or a line break")
	}
	if e.Batch < 1 || e.Batch > 2048 {
		p = append(p, "embeddings.batch: want 1 to 2048")
	}
	if e.Timeout <= 0 {
		p = append(p, "embeddings.timeout: must be more than zero")
	}
	if e.Attempts < 1 {
		p = append(p, "embeddings.attempts: must be more than zero")
	}
	return p
}
