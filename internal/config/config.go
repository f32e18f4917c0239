// Package config finds out how a server is to run: flags over environment over one YAML
// file over defaults. It reads everything once, before the first turn, remembers where
// each value came from, and names all that is wrong at once. Nothing here is used again
// while turns run, except Contexts, which says which model and boot prompt a session
// has.
package config

import (
	_ "embed"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
)

// DefaultFile is read when it is there and no other file was named.
const DefaultFile = "aptix.yaml"

// Provider names who answers model requests.
type Provider string

// The providers.
const (
	ProviderDemo   Provider = "demo"
	ProviderOpenAI Provider = "openai"
)

// Continuity says how a conversation goes on from one model request to the next
// (decision 29).
type Continuity string

// The continuities.
const (
	ContinuityAuto     Continuity = "auto"
	ContinuityProvider Continuity = "provider"
	ContinuityReplay   Continuity = "replay"
)

// Consent says how a mode change is agreed to (decision 17).
type Consent string

// The ways of consent.
const (
	ConsentPrompt   Consent = "prompt"
	ConsentRequired Consent = "required"
)

// Config is how a server runs.
type Config struct {
	// Listen is the address of the server, host:port.
	Listen string `koanf:"listen"`
	TLS    TLS    `koanf:"tls"`
	// Hosts are the names, without port, under which the server is reached.
	Hosts []string `koanf:"hosts"`
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed.
	TrustedProxies []string `koanf:"trustedProxies"`
	Auth           Auth     `koanf:"auth"`
	Console        Console  `koanf:"console"`
	// Data is the folder that holds the data file.
	Data string `koanf:"data"`
	// Database is the path of a SQLite file or a postgres:// URL, which may hold a
	// password; empty means a file under Data. See PostgreSQL.
	Database secret.Text `koanf:"database"`
	// NATS is the address of the message server between nodes.
	NATS    secret.Text `koanf:"nats"`
	Cluster Cluster     `koanf:"cluster"`
	// Modes is the folder of the mode files; empty means the built-in catalogue.
	Modes      string     `koanf:"modes"`
	Provider   Provider   `koanf:"provider"`
	Continuity Continuity `koanf:"continuity"`
	// Model is the model of conversation contexts that name none.
	Model      string     `koanf:"model"`
	ModeChange ModeChange `koanf:"modeChange"`
	// Approvals say which calls wait for the user, by the name of a tool or a pattern of
	// names, in modes that say nothing of it.
	Approvals agent.ApprovalRules `koanf:"approvals"`
	// Exposure says which tools wait for the user when others came before them.
	Exposure agent.Exposure `koanf:"exposure"`
	OpenAI   OpenAI         `koanf:"openai"`
	Limits   Limits         `koanf:"limits"`
	Budgets  Budgets        `koanf:"budgets"`
	// Prices are what models take, by name.
	Prices map[string]Price `koanf:"prices"`
	// Organisations have limits and budgets of their own, by name.
	Organisations map[string]Organisation `koanf:"organisations"`
	Retention     Retention               `koanf:"retention"`
	Audit         Audit                   `koanf:"audit"`
	Webhooks      Webhooks                `koanf:"webhooks"`
	Retrieval     Retrieval               `koanf:"retrieval"`
	Embeddings    Embeddings              `koanf:"embeddings"`
	MCP           MCP                     `koanf:"mcp"`
	Outbound      Outbound                `koanf:"outbound"`
	Telemetry     Telemetry               `koanf:"telemetry"`
	Metrics       Metrics                 `koanf:"metrics"`
	// ToolGroups are tools, by name or by pattern, that modes list as group:name.
	ToolGroups map[string][]string `koanf:"toolGroups"`
	// AgentContexts say which models and boot prompts sessions may choose from; one
	// named "default" when there are none.
	AgentContexts []AgentContext `koanf:"agentContexts"`
	// DefaultAgentContext is the one of sessions that choose none; the first when empty.
	DefaultAgentContext string `koanf:"defaultAgentContext"`

	// File is the configuration file that was read, empty when there was none.
	File string `koanf:"-"`

	sources map[string]Source
}

// Cluster says how nodes that share a PostgreSQL database deal with one another.
type Cluster struct {
	// Lease is how long a turn belongs to a node that does not say anything; after that
	// another node takes it over.
	Lease time.Duration `koanf:"lease"`
	// Poll is how often a node looks how far turns have come that others run and that
	// somebody follows here.
	Poll time.Duration `koanf:"poll"`
}

// ModeChange configures changes of the mode.
type ModeChange struct {
	Consent Consent `koanf:"consent"`
}

// OpenAI says where the Responses API is.
type OpenAI struct {
	// BaseURL is the root of the API, /v1 included.
	BaseURL      string      `koanf:"baseURL"`
	APIKey       secret.Text `koanf:"apiKey"`
	Organization string      `koanf:"organization"`
	Project      string      `koanf:"project"`
	// Preset is the kind of endpoint; when empty, the one that BaseURL gives away.
	Preset Preset `koanf:"preset"`
	// Capabilities correct single members of the preset.
	Capabilities CapabilityOverrides `koanf:"capabilities"`
}

// Limits bound what one turn may take.
type Limits struct {
	// Turn is how long a turn may run, Waiting how long it may wait for its client,
	// Approval how long a call may wait for its user, and Tool how long one server tool may
	// run.
	Turn     time.Duration `koanf:"turn"`
	Waiting  time.Duration `koanf:"waiting"`
	Approval time.Duration `koanf:"approval"`
	Tool     time.Duration `koanf:"tool"`
	// ModelCalls is how many model requests a turn may make.
	ModelCalls int `koanf:"modelCalls"`
	// ModelAttempts is how often one of them is sent at most, ModelWait how long is waited
	// before the next attempt at most, and ModelConcurrency how many requests may be under
	// way at once, of all turns together.
	ModelAttempts    int           `koanf:"modelAttempts"`
	ModelWait        time.Duration `koanf:"modelWait"`
	ModelConcurrency int           `koanf:"modelConcurrency"`
	// ToolCalls is how many tools one answer of the model may call.
	ToolCalls int `koanf:"toolCalls"`
	// OutputBytes is how much the model may produce in a turn.
	OutputBytes int `koanf:"outputBytes"`
	// Quotas bound what callers do at a time.
	Quotas `koanf:",squash"`
}

// Retention says how long things are kept.
type Retention struct {
	// Sessions is how long a session is kept after the last thing that happened in it;
	// 0 is for ever.
	Sessions time.Duration `koanf:"sessions"`
	// Audit is how long the audit log keeps its entries; 0 is for ever.
	Audit time.Duration `koanf:"audit"`
}

// AgentContext is a choice of conversation contexts (AGN-034 §2.1, AgentContextId).
type AgentContext struct {
	ID          string `koanf:"id"`
	Name        string `koanf:"name"`
	Description string `koanf:"description"`
	// DefaultConversationContext is the one of sessions that choose none; the first
	// when empty.
	DefaultConversationContext string                `koanf:"defaultConversationContext"`
	ConversationContexts       []ConversationContext `koanf:"conversationContexts"`
}

// ConversationContext names a model and its boot prompt (AGN-003 §2).
type ConversationContext struct {
	ID string `koanf:"id"`
	// Model is Config.Model when empty.
	Model string `koanf:"model"`
	// System is the boot prompt, the built-in one when empty (AGN-003 §4.1).
	System string `koanf:"system"`
	// Temperature is left out of the request when nil.
	Temperature *float64 `koanf:"temperature"`
	// OmitTemperature keeps it out of the wire request only (decision 30).
	OmitTemperature bool `koanf:"omitTemperature"`
	// EncryptedReasoning asks for the model's reasoning, to be given back with a
	// replayed transcript. By default it is asked of endpoints that have it (see
	// Capabilities.Reasoning): turn it off there for models that do not reason.
	EncryptedReasoning *bool `koanf:"encryptedReasoning"`
}

// bootPrompt is the built-in boot prompt.
//
//go:embed boot.md
var bootPrompt string

// openAIBase is the API of OpenAI itself.
const openAIBase = "https://api.openai.com/v1"

// defaults are the values that nobody has to set, by key.
func defaults() map[string]any {
	retrieval, embeddings := retrievalDefaults()
	return map[string]any{
		"listen":     "127.0.0.1:8080",
		"data":       "./aptix-data",
		"continuity": string(ContinuityAuto),
		"modeChange": map[string]any{"consent": string(ConsentPrompt)},
		"openai":     map[string]any{"baseURL": openAIBase},
		"limits": map[string]any{
			"turn": "10m", "waiting": "24h", "approval": "1h", "tool": "60s", "modelCalls": 32, "outputBytes": 32 << 20,
			"modelAttempts": 3, "modelWait": "30s", "modelConcurrency": 10000, "toolCalls": 128, "streams": 1000,
		},
		"auth":      authDefaults(),
		"console":   map[string]any{"token": string(ConsoleTokenAsk)},
		"retention": map[string]any{"sessions": "0s", "audit": "0s"},
		"audit":     map[string]any{"organisation": "local"},
		"webhooks":  map[string]any{"retry": "72h"},
		"cluster":   map[string]any{"lease": "15s", "poll": "500ms"},
		"retrieval": retrieval, "embeddings": embeddings,
	}
}

// derive fills in what follows from other values.
func (c *Config) derive() {
	if c.Provider == "" {
		c.Provider = ProviderDemo
		c.sources["provider"] = Source{Kind: FromDefault, Why: "no OPENAI_API_KEY is set"}
		if !c.OpenAI.APIKey.IsZero() {
			c.Provider = ProviderOpenAI
			c.sources["provider"] = Source{Kind: FromDefault, Why: "OPENAI_API_KEY is set"}
		}
	}
	if c.Model == "" {
		c.Model = "aptix-demo"
		if c.Provider == ProviderOpenAI {
			c.Model = "gpt-5-mini"
		}
		c.sources["model"] = Source{Kind: FromDefault, Why: "of provider " + string(c.Provider)}
	}
	c.deriveEndpoint()
	c.deriveEmbeddings()
	if len(c.Organisations) > 0 {
		c.sources["organisations"] = Source{Kind: FromFile, Name: c.File}
	}
	if len(c.ToolGroups) > 0 {
		c.sources["toolGroups"] = Source{Kind: FromFile, Name: c.File} // no other layer has any
	}
	if len(c.AgentContexts) == 0 {
		c.AgentContexts = []AgentContext{{
			ID: "default", Name: "Aptix", Description: "The built-in context.",
			ConversationContexts: []ConversationContext{{ID: "default"}},
		}}
	}
}

// PostgreSQL returns the connection string of the database, false when a SQLite file is
// used.
func (c Config) PostgreSQL() (secret.Text, bool) { return c.Database, isPostgreSQL(c.Database) }

// Store names where the data is, without anything that is secret: the path of the file,
// or host and name of the database.
func (c Config) Store() string {
	if isPostgreSQL(c.Database) {
		return address(c.Database)
	}
	return c.DatabasePath()
}

// DatabasePath returns the path of the SQLite file.
func (c Config) DatabasePath() string {
	if !c.Database.IsZero() {
		return strings.TrimPrefix(c.Database.Reveal(), "sqlite:")
	}
	return filepath.Join(c.Data, "aptix.db")
}

// Chain reports whether the provider remembers earlier responses, so that a request
// need not repeat them. In auto, only a provider that is known to is relied on
// (decision 29): one whose Capabilities are stateful.
func (c Config) Chain() bool {
	switch c.Continuity {
	case ContinuityProvider:
		return true
	case ContinuityReplay:
		return false
	}
	return c.Capabilities().Stateful
}

// official reports whether the API is OpenAI's own.
func (o OpenAI) official() bool {
	u, err := url.Parse(o.BaseURL)
	return err == nil && u.Hostname() == "api.openai.com"
}
