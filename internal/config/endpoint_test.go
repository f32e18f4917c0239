package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
)

// members renders a record as the names of what an endpoint has.
func members(c config.Capabilities) string {
	var out []string
	for _, m := range []struct {
		name string
		has  bool
	}{
		{"stateful", c.Stateful}, {"store", c.Store}, {"toolChoice", c.ToolChoice}, {"allowedTools", c.AllowedTools}, {"images", c.Images},
		{"files", c.Files}, {"reasoning", c.Reasoning}, {"temperature", c.Temperature},
	} {
		if m.has {
			out = append(out, m.name)
		}
	}
	return strings.Join(out, " ")
}

func TestCapabilities_OfAddressAndPreset(t *testing.T) {
	const (
		openAI     = "stateful store toolChoice allowedTools images files reasoning temperature"
		everything = "stateful store toolChoice images files reasoning temperature"
		local      = "store toolChoice images temperature"
		unknown    = "store toolChoice images files temperature"
		ollama     = "store images temperature"
	)
	for _, tc := range []struct {
		base, preset string
		want         string
		shown        string
		chain        bool
	}{
		{"", "", openAI, "openai · default, since openai.baseURL says so", true},
		{"https://API.openai.com/v1/", "", openAI, "openai · default, since openai.baseURL says so", true},
		{"https://me.openai.azure.com/openai/v1", "", everything, "azure · default, since openai.baseURL says so", true},
		{"https://openrouter.ai/api/v1", "", "store toolChoice images files reasoning temperature", "openrouter · default, since openai.baseURL says so", false},
		{"http://127.0.0.1:11434/v1", "", ollama, "ollama · default, since openai.baseURL says so", false},
		{"http://gpu-box:11434/v1", "", ollama, "ollama · default, since openai.baseURL says so", false},
		// Ports that many use give nothing away, and neither do names that only look right.
		{"http://127.0.0.1:8000/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"http://127.0.0.1:8080/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"http://127.0.0.1:1234/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"https://api.openai.com.evil.example/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"https://openai.azure.com.evil.example/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"https://notopenrouter.ai/v1", "", unknown, "none · default, since nothing is known of openai.baseURL", false},
		{"http://127.0.0.1:8000/v1", "vllm", local, "vllm · env APTIX_OPENAI_PRESET", false},
		{"http://127.0.0.1:8080/v1", "llamacpp", local, "llamacpp · env APTIX_OPENAI_PRESET", false},
		{"http://127.0.0.1:1234/v1", "lmstudio", "stateful " + local, "lmstudio · env APTIX_OPENAI_PRESET", true},
		{"https://proxy.example/v1", "openai", openAI, "openai · env APTIX_OPENAI_PRESET", true},
		{"https://proxy.example/v1", "azure", everything, "azure · env APTIX_OPENAI_PRESET", true},
		{"https://proxy.example/v1", "ollama", ollama, "ollama · env APTIX_OPENAI_PRESET", false},
		{"https://proxy.example/v1", "openrouter", "store toolChoice images files reasoning temperature", "openrouter · env APTIX_OPENAI_PRESET", false},
		// What somebody said goes over what the address gives away.
		{"http://127.0.0.1:11434/v1", "lmstudio", "stateful " + local, "lmstudio · env APTIX_OPENAI_PRESET", true},
	} {
		t.Run(tc.preset+" at "+tc.base, func(t *testing.T) {
			c, err := load(t, "", map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": tc.base, "APTIX_OPENAI_PRESET": tc.preset}, nil)
			must(t, c, err)
			if got := members(c.Capabilities()); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := shown(c)["openai.preset"]; got != tc.shown {
				t.Errorf("shown as %q, want %q", got, tc.shown)
			}
			if c.Chain() != tc.chain {
				t.Errorf("chain: got %v, want %v", c.Chain(), tc.chain)
			}
		})
	}
}

func TestCapabilities_Overrides(t *testing.T) {
	file := "openai:\n  baseURL: http://127.0.0.1:11434/v1\n  capabilities: {stateful: true, toolChoice: true, images: false}\n"
	c, err := load(t, file, map[string]string{"OPENAI_API_KEY": "sk-1"}, nil)
	if got := members(must(t, c, err).Capabilities()); got != "stateful store toolChoice temperature" || !c.Chain() {
		t.Errorf("got %q, chain %v", got, c.Chain())
	}
	got := map[string]string{}
	for key, value := range shown(c) {
		if name, ok := strings.CutPrefix(key, "openai.capabilities."); ok {
			got[name] = value
		}
	}
	want := map[string]string{
		"stateful": "true · file aptix.yaml", "toolChoice": "true · file aptix.yaml", "images": "false · file aptix.yaml",
		"store": "true · default, since openai.preset is ollama", "files": "false · default, since openai.preset is ollama", "allowedTools": "false · default, since openai.preset is ollama",
		"reasoning": "false · default, since openai.preset is ollama", "temperature": "true · default, since openai.preset is ollama",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// The demo provider is none of these endpoints.
	c, err = load(t, file, nil, map[string]string{"provider": "demo"})
	if must(t, c, err).Chain() || members(c.Capabilities()) != "store toolChoice images files temperature" {
		t.Errorf("demo: got %q, chain %v", members(c.Capabilities()), c.Chain())
	}
}

func TestCapabilities_Problems(t *testing.T) {
	for file, want := range map[string]string{
		"openai: {preset: gemini}":                `openai.preset: "gemini" is unknown; want one of openai, azure, ollama, vllm, llamacpp, lmstudio, openrouter, or leave it out`,
		"openai: {capabilities: {vision: true}}":  "aptix.yaml: unknown setting openai.capabilities.vision",
		"openai: {capabilities: {images: maybe}}": "aptix.yaml: 'openai.capabilities.images' expected type 'bool'",
	} {
		if _, err := load(t, file, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", file, err)
		}
	}
}

// TestCapabilities_ReachTheContexts shows what each member does to a conversation; how
// that looks on the wire is a test of package llm, and what it does to a turn one of
// package pipeline.
func TestCapabilities_ReachTheContexts(t *testing.T) {
	plain := agent.ConversationContext{ID: "c", Model: "m", System: "s", EncryptedReasoning: true, AllowedTools: true}
	for override, change := range map[string]func(*agent.ConversationContext){
		"":                    func(*agent.ConversationContext) {},
		"stateful: false":     func(*agent.ConversationContext) {},
		"store: false":        func(c *agent.ConversationContext) { c.OmitStore = true },
		"toolChoice: false":   func(c *agent.ConversationContext) { c.OmitToolChoice = true },
		"allowedTools: false": func(c *agent.ConversationContext) { c.AllowedTools = false },
		"images: false":       func(c *agent.ConversationContext) { c.NoImages = true },
		"files: false":        func(c *agent.ConversationContext) { c.NoFiles = true },
		"reasoning: false":    func(c *agent.ConversationContext) { c.EncryptedReasoning = false },
		"temperature: false":  func(c *agent.ConversationContext) { c.OmitTemperature = true },
	} {
		t.Run(override, func(t *testing.T) {
			file := "openai: {capabilities: {" + override + "}}\nagentContexts: [{id: a, conversationContexts: [{id: c, model: m, system: s}]}]\n"
			c, err := load(t, file, map[string]string{"OPENAI_API_KEY": "sk-1"}, nil)
			_, _, got, err := must(t, c, err).Contexts().Resolve("", "")
			if err != nil {
				t.Fatal(err)
			}
			want := plain
			change(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCapabilities_AContextMayKnowItsModelBetter(t *testing.T) {
	file := "agentContexts: [{id: a, conversationContexts: [{id: c, encryptedReasoning: true, omitTemperature: true}]}]\n"
	c, err := load(t, file, map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}, nil)
	_, _, got, err := must(t, c, err).Contexts().Resolve("", "")
	if err != nil || !got.EncryptedReasoning || !got.OmitTemperature {
		t.Errorf("got %+v, %v", got, err)
	}
}
