package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
)

// SourceKind says which layer a value came from.
type SourceKind string

// The layers, the weakest first.
const (
	FromDefault SourceKind = "default"
	FromFile    SourceKind = "file"
	FromEnv     SourceKind = "env"
	FromFlag    SourceKind = "flag"
	FromProgram SourceKind = "program"
)

// Source says where a value came from.
type Source struct {
	Kind SourceKind
	// Name is the file, the variable or the flag.
	Name string
	// Why tells what a default depends on.
	Why string
}

// String renders the source for people.
func (s Source) String() string {
	switch {
	case s.Why != "":
		return fmt.Sprintf("%s, since %s", s.Kind, s.Why)
	case s.Name != "":
		return fmt.Sprintf("%s %s", s.Kind, s.Name)
	}
	return string(s.Kind)
}

// Setting is a value with its source, fit to be shown: secrets are masked.
type Setting struct {
	Key    string
	Value  string
	Source Source
}

// setting is one row of the table of values that can be set: where it stands in the
// file, which variable sets it, and how it is shown.
type setting struct {
	key string
	env string
	// inFile tells that env with _FILE appended may name a file that holds the value.
	inFile bool
	show   func(c Config) string
}

// settings is the table of everything that can be set, in the order in which doctor
// shows it. A flag that sets a value has the key's name.
func settings() []setting {
	return slices.Concat(plainSettings(), authSettings(), capabilitySettings(), limitSettings(), spendingSettings(), auditSettings(), retrievalSettings(), outboundSettings(), telemetrySettings())
}

// plainSettings are all that stand alone.
func plainSettings() []setting {
	return []setting{
		{key: "listen", env: "APTIX_LISTEN", show: func(c Config) string { return c.Listen }},
		{key: "data", env: "APTIX_DATA", show: func(c Config) string { return c.Data }},
		{key: "database", env: "APTIX_DATABASE", inFile: true, show: func(c Config) string { return address(c.Database) }},
		{key: "nats", env: "APTIX_NATS", show: func(c Config) string { return addresses(c.NATS) }},
		{key: "cluster.lease", show: clustered(func(c Config) string { return c.Cluster.Lease.String() })},
		{key: "cluster.poll", show: clustered(func(c Config) string { return c.Cluster.Poll.String() })},
		{key: "modes", env: "APTIX_MODES", show: func(c Config) string { return c.Modes }},
		{key: "provider", env: "APTIX_PROVIDER", show: func(c Config) string { return string(c.Provider) }},
		{key: "model", env: "APTIX_MODEL", show: func(c Config) string { return c.Model }},
		{key: "continuity", env: "APTIX_CONTINUITY", show: func(c Config) string { return string(c.Continuity) }},
		{key: "modeChange.consent", env: "APTIX_MODE_CONSENT", show: func(c Config) string { return string(c.ModeChange.Consent) }},
		{key: "console.token", env: "APTIX_CONSOLE_TOKEN", show: func(c Config) string { return string(c.Console.Token) }},
		{key: "approvals", show: func(c Config) string { return ruleNames(c.Approvals) }},
		{key: "exposure.private", show: func(c Config) string { return strings.Join(c.Exposure.Private, ", ") }},
		{key: "exposure.untrusted", show: func(c Config) string { return strings.Join(c.Exposure.Untrusted, ", ") }},
		{key: "exposure.outgoing", show: func(c Config) string { return strings.Join(c.Exposure.Outgoing, ", ") }},
		{key: "openai.baseURL", env: "OPENAI_BASE_URL", show: func(c Config) string { return address(secret.New(c.OpenAI.BaseURL)) }},
		{key: "openai.apiKey", env: "OPENAI_API_KEY", inFile: true, show: func(c Config) string { return c.OpenAI.APIKey.String() }},
		{key: "openai.organization", env: "OPENAI_ORG_ID", show: func(c Config) string { return c.OpenAI.Organization }},
		{key: "openai.project", env: "OPENAI_PROJECT_ID", show: func(c Config) string { return c.OpenAI.Project }},
		{key: "openai.preset", env: "APTIX_OPENAI_PRESET", show: Config.presetName},
	}
}

// clustered shows a setting only where several nodes can be.
func clustered(show func(Config) string) func(Config) string {
	return func(c Config) string {
		if !isPostgreSQL(c.Database) {
			return ""
		}
		return show(c)
	}
}

// capabilitySettings are the members of the endpoint's record. The demo provider shows
// none.
func capabilitySettings() []setting {
	var out []setting
	for _, m := range capabilities() {
		out = append(out, setting{key: "openai.capabilities." + m.name, show: func(c Config) string {
			if c.Provider != ProviderOpenAI {
				return ""
			}
			record := c.Capabilities()
			return fmt.Sprint(*m.of(&record))
		}})
	}
	return out
}

// limitSettings are the bounds of a turn, and the retention and the contexts after them.
func limitSettings() []setting {
	return []setting{
		{key: "limits.turn", show: func(c Config) string { return c.Limits.Turn.String() }},
		{key: "limits.waiting", show: func(c Config) string { return c.Limits.Waiting.String() }},
		{key: "limits.approval", show: func(c Config) string { return c.Limits.Approval.String() }},
		{key: "limits.tool", show: func(c Config) string { return c.Limits.Tool.String() }},
		{key: "limits.modelCalls", show: func(c Config) string { return fmt.Sprint(c.Limits.ModelCalls) }},
		{key: "limits.modelAttempts", show: func(c Config) string { return fmt.Sprint(c.Limits.ModelAttempts) }},
		{key: "limits.modelWait", show: func(c Config) string { return c.Limits.ModelWait.String() }},
		{key: "limits.modelConcurrency", show: func(c Config) string { return fmt.Sprint(c.Limits.ModelConcurrency) }},
		{key: "limits.toolCalls", show: func(c Config) string { return fmt.Sprint(c.Limits.ToolCalls) }},
		{key: "limits.outputBytes", show: func(c Config) string { return fmt.Sprint(c.Limits.OutputBytes) }},
		{key: "retention.sessions", show: func(c Config) string { return keptFor(c.Retention.Sessions) }},
		{key: "mcp.servers", show: Config.mcpNames},
		{key: "toolGroups", show: Config.groupNames},
		{key: "agentContexts", show: func(c Config) string { return strings.Join(contextNames(c.AgentContexts), ", ") }},
		{key: "defaultAgentContext", show: func(c Config) string { return c.DefaultAgentContext }},
	}
}

// Settings returns every value that is set, with its source.
func (c Config) Settings() []Setting {
	var out []Setting
	for _, s := range settings() {
		if value := s.show(c); value != "" {
			out = append(out, Setting{Key: s.key, Value: value, Source: c.Source(s.key)})
		}
	}
	return out
}

// Source returns where the value of a key came from.
func (c Config) Source(key string) Source {
	if s, ok := c.sources[key]; ok {
		return s
	}
	for k, s := range c.sources { // of a mapping that is one setting, whose entries are all from the file
		if strings.HasPrefix(k, key+".") {
			return s
		}
	}
	return Source{Kind: FromDefault}
}

// ruleNames returns tool=policy for each rule.
func ruleNames(rules agent.ApprovalRules) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		out = append(out, name+"="+string(rules[name]))
	}
	return strings.Join(out, ", ")
}

// contextNames returns agent/conversation for each context.
func contextNames(agents []AgentContext) []string {
	var out []string
	for _, a := range agents {
		for _, c := range a.ConversationContexts {
			out = append(out, a.ID+"/"+c.ID)
		}
	}
	return out
}
