package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
)

// load reads a configuration in a folder of its own, from a file ("" for none),
// variables and flags.
func load(t *testing.T, file string, env, flags map[string]string) (config.Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		write(t, config.DefaultFile, file)
	}
	return config.Load(config.Options{Flags: flags, LookupEnv: lookup(env)})
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, c config.Config, err error) config.Config {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shown renders all settings and their sources.
func shown(c config.Config) map[string]string {
	out := map[string]string{}
	for _, s := range c.Settings() {
		out[s.Key] = s.Value + " · " + s.Source.String()
	}
	return out
}

func TestLoad_NothingConfigured(t *testing.T) {
	c, err := load(t, "", nil, nil)
	want := map[string]string{
		"listen": "127.0.0.1:8080 · default", "data": "./aptix-data · default",
		"provider": "demo · default, since no OPENAI_API_KEY is set", "model": "aptix-demo · default, since of provider demo",
		"continuity": "auto · default", "modeChange.consent": "prompt · default", "console.token": "ask · default",
		"openai.baseURL": "https://api.openai.com/v1 · default",
		"limits.turn":    "10m0s · default", "limits.waiting": "24h0m0s · default", "limits.approval": "1h0m0s · default", "limits.tool": "1m0s · default",
		"limits.modelCalls": "32 · default", "limits.outputBytes": "33554432 · default",
		"limits.modelAttempts": "3 · default", "limits.modelWait": "30s · default",
		"limits.modelConcurrency": "10000 · default", "limits.toolCalls": "128 · default", "limits.streams": "1000 · default",
		"retrieval.search": "hybrid · default", "retrieval.chunks": "6 · default", "retrieval.bytes": "20480 · default",
		"retrieval.deadline": "2s · default", "embeddings.model": "offline, by hashing · default",
		"retention.audit": "for ever · default", "audit.organisation": "local · default", "webhooks.retry": "72h0m0s · default",
		"retention.sessions": "for ever · default", "agentContexts": "default/default · default",
	}
	if diff := cmp.Diff(want, shown(must(t, c, err))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.DatabasePath(); got != filepath.Join("aptix-data", "aptix.db") {
		t.Errorf("database path: %s", got)
	}
}

func TestLoad_Precedence(t *testing.T) {
	file := "listen: 127.0.0.1:1\ndata: from-file\nmodel: from-file\nlimits: {turn: 5m}\n"
	env := map[string]string{"APTIX_LISTEN": "127.0.0.1:2", "APTIX_DATA": "from-env", "APTIX_MODES": ""}
	flags := map[string]string{"listen": "127.0.0.1:3"}
	c, err := load(t, file, env, flags)
	got := shown(must(t, c, err))
	for key, want := range map[string]string{
		"listen":         "127.0.0.1:3 · flag --listen",
		"data":           "from-env · env APTIX_DATA",
		"model":          "from-file · file aptix.yaml",
		"limits.turn":    "5m0s · file aptix.yaml",
		"limits.waiting": "24h0m0s · default",
		"modes":          "", // an empty variable is an unset one
	} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
	if c.Limits.Turn != 5*time.Minute || c.File != "aptix.yaml" {
		t.Errorf("got %+v", c)
	}
}

// YAML 1.1 would read off as a boolean.
func TestLoad_ConsoleTokenOff(t *testing.T) {
	c, err := load(t, "console: {token: off}\n", nil, nil)
	if got := must(t, c, err).Console.Token; got != config.ConsoleTokenOff {
		t.Errorf("got %q", got)
	}
}

func TestLoad_WhichFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, model := range map[string]string{"aptix.yaml": "usual", "env.yaml": "env", "flag.yaml": "flag"} {
		write(t, name, "model: "+model)
	}
	env := map[string]string{"APTIX_CONFIG": "env.yaml"}
	for want, o := range map[string]config.Options{
		"usual": {LookupEnv: lookup(nil)},
		"env":   {LookupEnv: lookup(env)},
		"flag":  {LookupEnv: lookup(env), File: "flag.yaml"},
	} {
		if c, err := config.Load(o); err != nil || c.Model != want {
			t.Errorf("got %q, %v; want %q", c.Model, err, want)
		}
	}
	// A file that somebody named must be there.
	if _, err := config.Load(config.Options{LookupEnv: lookup(nil), File: "missing.yaml"}); err == nil || !strings.Contains(err.Error(), "--config: open missing.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestLoad_TheProgramGoesOverAllAndReadsNoFileByItself(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, config.DefaultFile, "model: of-the-file\nretention: {sessions: 24h}\n")
	program := map[string]any{"model": "of-the-program", "hosts": []string{"shop.example"}}
	env := lookup(map[string]string{"APTIX_MODEL": "of-the-environment", "APTIX_DATA": "there"})
	c, err := config.Load(config.Options{LookupEnv: env, Program: program})
	got := shown(must(t, c, err))
	for key, want := range map[string]string{"model": "of-the-program · program", "hosts": "shop.example · program", "data": "there · env APTIX_DATA", "retention.sessions": "for ever · default"} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
	c, err = config.Load(config.Options{File: config.DefaultFile, LookupEnv: env, Program: program})
	if got := shown(must(t, c, err)); got["retention.sessions"] != "24h0m0s · file aptix.yaml" {
		t.Errorf("of a file that is named: %q", got["retention.sessions"])
	}
}

func TestLoad_Exposure(t *testing.T) {
	c, err := load(t, "exposure: {private: [\"files__*\"], untrusted: [web__get], outgoing: [web__post, mail__send]}\n", nil, nil)
	got := shown(must(t, c, err))
	for key, want := range map[string]string{"private": "files__*", "untrusted": "web__get", "outgoing": "web__post, mail__send"} {
		if want += " · file aptix.yaml"; got["exposure."+key] != want {
			t.Errorf("exposure.%s: got %q, want %q", key, got["exposure."+key], want)
		}
	}
}

func TestLoad_ProviderFollowsTheKey(t *testing.T) {
	key := map[string]string{"OPENAI_API_KEY": "sk-1"}
	c, err := load(t, "", key, nil)
	if must(t, c, err).Provider != config.ProviderOpenAI || c.Model != "gpt-5-mini" || !c.Chain() {
		t.Errorf("with a key: %+v, chain %v", c, c.Chain())
	}
	if got := shown(c)["provider"]; got != "openai · default, since OPENAI_API_KEY is set" {
		t.Errorf("source: %s", got)
	}
	c, err = load(t, "", key, map[string]string{"provider": "demo"})
	if must(t, c, err).Provider != config.ProviderDemo || c.Model != "aptix-demo" || c.Chain() {
		t.Errorf("with a key and --provider demo: %+v, chain %v", c, c.Chain())
	}
}

// TestChain covers decision 29: in auto, only a provider known to remember is relied on.
func TestChain(t *testing.T) {
	for _, tc := range []struct {
		continuity, base string
		want             bool
	}{
		{"auto", "", true}, {"auto", "http://127.0.0.1:11434/v1", false}, {"auto", "https://api.openai.com.evil.example/v1", false},
		{"provider", "http://127.0.0.1:11434/v1", true}, {"replay", "", false},
	} {
		env := map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": tc.base, "APTIX_CONTINUITY": tc.continuity}
		c, err := load(t, "", env, nil)
		if must(t, c, err).Chain() != tc.want {
			t.Errorf("%s at %q: got %v", tc.continuity, tc.base, c.Chain())
		}
	}
}

func TestLoad_AllProblemsAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		file       string
		env, flags map[string]string
		want       []string
	}{
		"unknown settings": {
			file: "listn: x\nopenai: {key: y}\nListen: z\nagentContexts:\n  - id: a\n    conversationContexts: [{id: b, temprature: 1}]\n",
			want: []string{"aptix.yaml: unknown setting Listen", "aptix.yaml: unknown setting agentContexts[0].conversationContexts[0].temprature",
				"aptix.yaml: unknown setting listn", "aptix.yaml: unknown setting openai.key"},
		},
		"wrong types": {
			file: "listen: 8080\nlimits: {turn: 10, tool: soon, modelCalls: many}\nagentContexts: yes\n",
			want: []string{"aptix.yaml: 'listen' expected type 'string', got unconvertible type 'int'",
				"aptix.yaml: 'limits.turn' 10 is not a duration such as 90s or 10m",
				"aptix.yaml: 'limits.tool' soon is not a duration such as 90s or 10m",
				"aptix.yaml: 'limits.modelCalls' expected type 'int', got unconvertible type 'string'",
				"aptix.yaml: 'agentContexts' source data must be an array or slice, got string"},
		},
		"not yaml":      {file: "listen: [", want: []string{"aptix.yaml: yaml: line 1: did not find expected node content"}},
		"a name twice":  {file: "model: a\nmodel: b\n", want: []string{`aptix.yaml: yaml: unmarshal errors:` + "\n" + `  line 2: mapping key "model" already defined at line 1`}},
		"not a mapping": {file: "- a\n", want: []string{"aptix.yaml: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]interface {}"}},
		"values": {
			file: "data: ''\nlimits: {turn: 0s, modelCalls: -1}\nretention: {sessions: -1h}\napprovals: {deploy: sometimes, \"[\": ask, agent_change_mode: ask}\n",
			env:  map[string]string{"APTIX_CONTINUITY": "sometimes", "APTIX_NATS": "nats://n1", "APTIX_PROVIDER": "other"},
			want: []string{"data: want a folder", "nats: only with a database that several nodes share; set database to postgres://, or leave nats out",
				`provider: "other" is unknown; want demo or openai`, `continuity: "sometimes" is unknown; want auto, provider or replay`,
				`approvals: "[" is neither the name of a tool nor a pattern of names`, `approvals: deploy: "sometimes" is unknown; want never, ask or always-ask`,
				"approvals: consent to a change of the mode is the setting modeChange.consent", "limits.turn: must be more than zero", "limits.modelCalls: must be more than zero",
				"retention.sessions: must not be negative; 0 keeps them for ever"},
		},
		"the audit log and webhooks": {file: "retention: {audit: 24h}\naudit: {organisation: ''}\nwebhooks: {retry: 0s}",
			want: []string{"audit.organisation: want the id of an organisation", "retention.audit: must be 48h0m0s or more; 0 keeps the audit log for ever",
				"webhooks.retry: must be more than zero"}},
		"console's token": {file: "console: {token: no}", want: []string{`console.token: "no" is unknown; want ask or off`}},
		"consent":         {env: map[string]string{"APTIX_MODE_CONSENT": "never"}, want: []string{`modeChange.consent: "never" is unknown; want prompt or required`}},
		"another database": {flags: map[string]string{"database": "mysql://u:p@h/d"},
			want: []string{`database: "mysql" is no kind of database; want the path of a SQLite file, or postgres://`}},
		"a database that cannot be read": {flags: map[string]string{"database": "postgres://u:sec%ret@h/d"},
			want: []string{"database: want postgres://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in the password written as %XX"}},
		"no database": {flags: map[string]string{"database": "postgresql://u:p@h/"},
			want: []string{"database: want postgres://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in the password written as %XX"}},
		"cluster": {file: "cluster: {lease: 10ms, poll: 0s}\n",
			want: []string{"cluster.lease: must be 1s or more, or turns are taken from nodes that only pause", "cluster.poll: must be 10ms or more"}},
		"demo remembers nothing": {env: map[string]string{"APTIX_CONTINUITY": "provider"},
			want: []string{"continuity: the demo provider remembers nothing; want auto or replay"}},
		"openai without a key": {env: map[string]string{"APTIX_PROVIDER": "openai"},
			want: []string{"openai.apiKey: api.openai.com wants a key; set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that wants none"}},
		"base address": {env: map[string]string{"OPENAI_API_KEY": "sk 1", "OPENAI_BASE_URL": "localhost:11434"},
			want: []string{"openai.baseURL: want http:// or https://, up to and with /v1", "openai.apiKey: the key holds a space or a line break"}},
		"key in the address": {env: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://u:p@h/v1"},
			want: []string{"openai.baseURL: want an address only; the key goes into OPENAI_API_KEY"}},
		"contexts": {
			file: `
defaultAgentContext: gone
agentContexts:
  - id: a b
    conversationContexts: []
  - id: x
    defaultConversationContext: gone
    conversationContexts: [{id: c, temperature: 3}, {id: c}, {id: ""}]
  - id: x
    conversationContexts: [{id: c, temperature: .nan}]
`,
			want: []string{
				"agentContexts[0].id: want 1 to 128 characters of A-Z a-z 0-9 _ . -",
				"agentContexts[0].conversationContexts: want at least one",
				"agentContexts[1].conversationContexts[0].temperature: want 0 to 2",
				`agentContexts[1].conversationContexts[1].id: "c" is there twice`,
				"agentContexts[1].conversationContexts[2].id: want 1 to 128 characters of A-Z a-z 0-9 _ . -",
				`agentContexts[1].defaultConversationContext: there is no conversation context "gone" in it`,
				`agentContexts[2].id: "x" is there twice`,
				"agentContexts[2].conversationContexts[0].temperature: want 0 to 2",
				`defaultAgentContext: there is no agent context "gone"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.env, tc.flags)
			var p config.Problems
			if !errors.As(err, &p) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tc.want, []string(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, l := range tc.want {
				if !strings.Contains(err.Error(), l) {
					t.Errorf("the error does not say %q", l)
				}
			}
		})
	}
}

func TestLoad_EmptyHeadingsSetNothing(t *testing.T) {
	c, err := load(t, "limits:\n  # turn: 5m\nopenai:\nmodel:\n", nil, nil)
	if must(t, c, err).Limits.Turn != 10*time.Minute || c.OpenAI.BaseURL == "" || c.Model != "aptix-demo" {
		t.Errorf("got %+v", c)
	}
}

func TestLoad_SecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	key, empty := filepath.Join(dir, "key"), filepath.Join(dir, "empty")
	write(t, key, "sk-from-file\n")
	write(t, empty, "\n")
	c, err := load(t, "", map[string]string{"OPENAI_API_KEY_FILE": key}, nil)
	if must(t, c, err).OpenAI.APIKey.Reveal() != "sk-from-file" || shown(c)["openai.apiKey"] != "*** · env OPENAI_API_KEY_FILE" {
		t.Errorf("got %q, shown as %q", c.OpenAI.APIKey.Reveal(), shown(c)["openai.apiKey"])
	}
	for want, env := range map[string]map[string]string{
		"OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set; keep one": {"OPENAI_API_KEY": "a", "OPENAI_API_KEY_FILE": key},
		"OPENAI_API_KEY_FILE: open":                                     {"OPENAI_API_KEY_FILE": filepath.Join(dir, "missing")},
		"OPENAI_API_KEY_FILE: " + empty + " is empty":                   {"OPENAI_API_KEY_FILE": empty},
	} {
		if _, err := load(t, "", env, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}

	cl, err := config.LoadClient("", lookup(map[string]string{"APTIX_API_KEY_FILE": key, "APTIX_URL": "http://x"}))
	if err != nil || cl.APIKey.Reveal() != "sk-from-file" || cl.URL != "http://x" {
		t.Errorf("client: %+v, %v", cl, err)
	}
	if _, err := config.LoadClient("", lookup(map[string]string{"APTIX_API_KEY_FILE": key, "APTIX_API_KEY": "k"})); err == nil {
		t.Error("a client's key was taken twice")
	}
}

// TestLoadClient_ReadsNoFile keeps a file in somebody's project from choosing where the
// key is sent.
func TestLoadClient_ReadsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, config.DefaultFile, "url: http://evil\nclient: {url: http://evil}\n")
	c, err := config.LoadClient("http://flag", lookup(map[string]string{"APTIX_URL": "http://env"}))
	if err != nil || c.URL != "http://flag" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := config.LoadClient("", lookup(nil)); err != nil || c.URL != "" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestSecret_NeverShows holds row S-25 of docs/security.md.
func TestSecret_NeverShows(t *testing.T) {
	const canary = "sk-canary"
	c, err := load(t, "", map[string]string{"OPENAI_API_KEY": canary}, map[string]string{"database": "x.db"})
	must(t, c, err)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", &c.OpenAI)
		fmt.Fprintf(&out, verb+"\n", c.OpenAI.APIKey)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(append(b, y...))
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "config", c, "openai", c.OpenAI, "key", c.OpenAI.APIKey)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "config", c, "openai", c.OpenAI, "key", c.OpenAI.APIKey)
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%s shows in:\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "***") {
		t.Error("nothing was masked, so the test shows nothing")
	}
}

func TestSettings_AddressesWithoutPasswords(t *testing.T) {
	for value, want := range map[string]string{
		"my.db":                              "my.db",
		"/var/lib/aptix.db":                  "/var/lib/aptix.db",
		"postgres://u:secret@h/d":            "postgres://h/d",
		"postgresql://u:secret@h:5433/d":     "postgres://h:5433/d",
		"postgres://h/d?password=secret":     "postgres://h/d",
		"postgres:///d?host=/run/pg&user=u":  "postgres:///run/pg/d",
		"postgres://u:sec%ret@h/d":           "***",
		"sqlite:some.db":                     "sqlite:some.db",
		"postgres://u:secret@h/d?sslmode=no": "postgres://h/d",
	} {
		c, _ := load(t, "", nil, map[string]string{"database": value})
		if got := strings.TrimSuffix(shown(c)["database"], " · flag --database"); got != want {
			t.Errorf("%s: shown as %q, want %q", value, got, want)
		}
	}
}

func TestDatabasePath(t *testing.T) {
	for flag, want := range map[string]string{"x.db": "x.db", "sqlite:x.db": "x.db"} {
		c, err := load(t, "", nil, map[string]string{"database": flag})
		if got := must(t, c, err).DatabasePath(); got != want {
			t.Errorf("%s: got %s", flag, got)
		}
	}
}

const twoAgents = `
model: m0
agentContexts:
  - id: first
    conversationContexts:
      - {id: one, temperature: 0.5}
      - {id: two, model: m2, system: "Be brief.", temperature: 1, omitTemperature: true}
  - id: second
    defaultConversationContext: b
    conversationContexts: [{id: a, model: ma}, {id: b, model: mb}]
`

func TestContexts(t *testing.T) {
	c, err := load(t, twoAgents, nil, nil)
	contexts := must(t, c, err).Contexts()
	for _, tc := range []struct{ agent, conversation, wantAgent, wantConversation, wantModel string }{
		{"", "", "first", "one", "m0"}, {"", "two", "first", "two", "m2"},
		{"first", "", "first", "one", "m0"}, {"second", "", "second", "b", "mb"}, {"second", "a", "second", "a", "ma"},
	} {
		a, conv, got, err := contexts.Resolve(tc.agent, tc.conversation)
		if err != nil || a != tc.wantAgent || conv != tc.wantConversation || got.Model != tc.wantModel || got.ID != conv {
			t.Errorf("%s/%s: got %s/%s %+v, %v", tc.agent, tc.conversation, a, conv, got, err)
		}
		again, ok := contexts.Conversation(a, conv)
		if diff := cmp.Diff(got, again); diff != "" || !ok {
			t.Errorf("%s/%s is not found again:\n%s", a, conv, diff)
		}
	}
	_, _, two, err := contexts.Resolve("first", "two")
	if err != nil || two.System != "Be brief." || *two.Temperature != 1 || !two.OmitTemperature {
		t.Errorf("got %+v, %v", two, err)
	}
	if _, ok := contexts.Conversation("first", "gone"); ok {
		t.Error("a context that is not there was found")
	}
	if _, ok := contexts.Conversation("", ""); ok {
		t.Error("a pinned context without a name was found")
	}
	for want, names := range map[string][2]string{
		`There is no agent context "third". Valid agent contexts: first, second.`:                                         {"third", ""},
		`There is no conversation context "c" in the agent context "second". Valid conversation contexts: a, b.`:          {"second", "c"},
		`There is no conversation context "a" in the agent context "first". Valid conversation contexts: one, two.`:       {"", "a"},
		`There is no conversation context "default" in the agent context "first". Valid conversation contexts: one, two.`: {"", "default"},
	} {
		_, _, _, err := contexts.Resolve(names[0], names[1])
		if agent.KindOf(err) != agent.KindUnknownContext || agent.FaultOf(err).Message != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestContexts_BuiltIn(t *testing.T) {
	c, err := load(t, "", nil, nil)
	a, conv, got, err := must(t, c, err).Contexts().Resolve("", "")
	if err != nil || a != "default" || conv != "default" || got.Model != "aptix-demo" || got.Temperature != nil {
		t.Errorf("got %s/%s %+v, %v", a, conv, got, err)
	}
	if !strings.HasPrefix(got.System, "You are Aptix") || strings.TrimSpace(got.System) != got.System {
		t.Errorf("boot prompt: %q", got.System)
	}
}

func TestContexts_DefaultAgentContext(t *testing.T) {
	c, err := load(t, "defaultAgentContext: second\n"+twoAgents, nil, nil)
	if a, conv, _, err := must(t, c, err).Contexts().Resolve("", ""); err != nil || a != "second" || conv != "b" {
		t.Errorf("got %s/%s, %v", a, conv, err)
	}
}
