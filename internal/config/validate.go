package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/tool"
)

// problems returns all that is wrong with the values together.
func (c Config) problems() Problems {
	var p Problems
	add := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }

	if c.Listen == "" {
		add("listen: want HOST:PORT, such as 127.0.0.1:8080")
	}
	if c.Data == "" && c.Database.IsZero() {
		add("data: want a folder")
	}
	p = append(p, c.networkProblems()...)
	p = append(p, c.Auth.problems()...)
	p = append(p, databaseProblems(c.Database)...)
	p = append(p, c.Cluster.problems()...)
	if _, shared := c.PostgreSQL(); !c.NATS.IsZero() && !shared {
		add("nats: only with a database that several nodes share; set database to postgres://, or leave nats out")
	}
	switch c.Provider {
	case ProviderDemo, ProviderOpenAI:
	default:
		add("provider: %q is unknown; want %s or %s", c.Provider, ProviderDemo, ProviderOpenAI)
	}
	switch c.Continuity {
	case ContinuityAuto, ContinuityReplay:
	case ContinuityProvider:
		if c.Provider == ProviderDemo {
			add("continuity: the demo provider remembers nothing; want %s or %s", ContinuityAuto, ContinuityReplay)
		}
	default:
		add("continuity: %q is unknown; want %s, %s or %s", c.Continuity, ContinuityAuto, ContinuityProvider, ContinuityReplay)
	}
	switch c.ModeChange.Consent {
	case ConsentPrompt, ConsentRequired:
	default:
		add("modeChange.consent: %q is unknown; want %s or %s", c.ModeChange.Consent, ConsentPrompt, ConsentRequired)
	}
	for _, wrong := range c.Approvals.Problems() {
		add("approvals: %s", wrong)
	}
	for _, wrong := range c.Exposure.Problems() {
		add("exposure: %s", wrong)
	}
	if _, ok := c.Approvals[tool.ChangeMode]; ok {
		add("approvals: consent to a change of the mode is the setting modeChange.consent")
	}
	p = append(p, c.OpenAI.presetProblems()...)
	if c.Provider == ProviderOpenAI {
		p = append(p, c.OpenAI.problems()...)
	}
	p = append(p, c.Console.problems()...)
	p = append(p, c.Limits.problems()...)
	p = append(p, c.spendingProblems()...)
	p = append(p, c.Retrieval.problems()...)
	p = append(p, c.Embeddings.problems()...)
	if _, ok := c.PostgreSQL(); ok && c.Retrieval.Search == SearchVector {
		add("retrieval.search: indexes in PostgreSQL have no vectors; want %s or %s", SearchLexical, SearchOff)
	}
	if c.Retention.Sessions < 0 {
		add("retention.sessions: must not be negative; 0 keeps them for ever")
	}
	p = append(p, c.auditProblems()...)
	p = append(p, c.mcpProblems()...)
	p = append(p, c.Outbound.problems()...)
	p = append(p, c.telemetryProblems()...)
	return append(p, c.contextProblems()...)
}

// databaseProblems returns what is wrong with the address of a database, without a word of
// it.
func databaseProblems(s secret.Text) Problems {
	scheme, _, ok := strings.Cut(s.Reveal(), "://")
	switch {
	case isPostgreSQL(s):
		if u, err := url.Parse(s.Reveal()); err != nil || strings.Trim(u.Path, "/") == "" {
			return Problems{"database: want postgres://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in the password written as %XX"}
		}
	case ok && scheme == "sqlite":
		return Problems{"database: write the path of a SQLite file without sqlite://"}
	case ok:
		return Problems{fmt.Sprintf("database: %.20q is no kind of database; want the path of a SQLite file, or postgres://", scheme)}
	}
	return nil
}

// The bounds of the cluster's times.
const (
	minLease = time.Second
	minPoll  = 10 * time.Millisecond
)

func (c Cluster) problems() Problems {
	var p Problems
	if c.Lease < minLease {
		p = append(p, fmt.Sprintf("cluster.lease: must be %s or more, or turns are taken from nodes that only pause", minLease))
	}
	if c.Poll < minPoll {
		p = append(p, fmt.Sprintf("cluster.poll: must be %s or more", minPoll))
	}
	return p
}

func (o OpenAI) problems() Problems {
	p := addressProblems("openai.baseURL", o.BaseURL, "OPENAI_API_KEY")
	if len(p) == 0 && o.official() && o.APIKey.IsZero() {
		p = append(p, "openai.apiKey: api.openai.com wants a key; set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that wants none")
	}
	if strings.ContainsAny(o.APIKey.Reveal(), " \t\r\n") {
		p = append(p, "openai.apiKey: the key holds a space or a line break")
	}
	return p
}

// addressProblems returns what is wrong with the root of an API; its key belongs into a
// variable of its own.
func addressProblems(setting, address, key string) Problems {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return Problems{setting + ": want http:// or https://, up to and with /v1"}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return Problems{setting + ": want an address only; the key goes into " + key}
	}
	return nil
}

func (l Limits) problems() Problems {
	var p Problems
	for _, v := range []struct {
		name     string
		positive bool
	}{
		{"turn", l.Turn > 0}, {"waiting", l.Waiting > 0}, {"approval", l.Approval > 0}, {"tool", l.Tool > 0},
		{"modelCalls", l.ModelCalls > 0}, {"modelAttempts", l.ModelAttempts > 0}, {"modelWait", l.ModelWait > 0},
		{"modelConcurrency", l.ModelConcurrency > 0}, {"toolCalls", l.ToolCalls > 0}, {"outputBytes", l.OutputBytes > 0},
	} {
		if !v.positive {
			p = append(p, "limits."+v.name+": must be more than zero")
		}
	}
	return p
}

func (c Config) contextProblems() Problems {
	var p Problems
	add := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }
	agents := map[string]bool{}
	for i, a := range c.AgentContexts {
		where := fmt.Sprintf("agentContexts[%d]", i)
		if !agent.ValidID(a.ID) {
			add("%s.id: want 1 to 128 characters of A-Z a-z 0-9 _ . -", where)
		}
		if agents[a.ID] {
			add("%s.id: %q is there twice", where, a.ID)
		}
		agents[a.ID] = true
		if len(a.ConversationContexts) == 0 {
			add("%s.conversationContexts: want at least one", where)
		}
		conversations := map[string]bool{}
		for j, cc := range a.ConversationContexts {
			where := fmt.Sprintf("%s.conversationContexts[%d]", where, j)
			if !agent.ValidID(cc.ID) {
				add("%s.id: want 1 to 128 characters of A-Z a-z 0-9 _ . -", where)
			}
			if conversations[cc.ID] {
				add("%s.id: %q is there twice", where, cc.ID)
			}
			conversations[cc.ID] = true
			if t := cc.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
				add("%s.temperature: want 0 to 2", where)
			}
		}
		if d := a.DefaultConversationContext; d != "" && !conversations[d] {
			add("%s.defaultConversationContext: there is no conversation context %q in it", where, d)
		}
	}
	if d := c.DefaultAgentContext; d != "" && !agents[d] {
		add("defaultAgentContext: there is no agent context %q", d)
	}
	return p
}
