package config

import (
	"net/url"
	"strings"
)

// Preset names a kind of endpoint whose capabilities are known. The empty one stands
// for an endpoint of which nothing is known.
type Preset string

// The presets.
const (
	PresetOpenAI     Preset = "openai"
	PresetAzure      Preset = "azure"
	PresetOllama     Preset = "ollama"
	PresetVLLM       Preset = "vllm"
	PresetLlamaCPP   Preset = "llamacpp"
	PresetLMStudio   Preset = "lmstudio"
	PresetOpenRouter Preset = "openrouter"
)

// Capabilities is what an endpoint does with the parts of a request that not every
// Responses API honours.
type Capabilities struct {
	// Stateful tells that a request with previous_response_id is answered in the light
	// of that response. Taking the id is not enough (decision 29).
	Stateful bool
	// Store tells that `store` may be in a request, whether or not it has an effect.
	Store bool
	// ToolChoice tells that a forced tool is forced, and AllowedTools that a request may
	// attach tools of which the model is allowed some.
	ToolChoice   bool
	AllowedTools bool
	// Images and Files tell that the model gets to see input_image and input_file.
	Images bool
	Files  bool
	// Reasoning tells that reasoning.encrypted_content may be asked for.
	Reasoning bool
	// Temperature tells that it may be in a request.
	Temperature bool
}

// CapabilityOverrides correct a preset where an endpoint is set up in another way, or
// stand in for one. A nil member is left to the preset.
type CapabilityOverrides struct {
	Stateful     *bool `koanf:"stateful"`
	Store        *bool `koanf:"store"`
	ToolChoice   *bool `koanf:"toolChoice"`
	AllowedTools *bool `koanf:"allowedTools"`
	Images       *bool `koanf:"images"`
	Files        *bool `koanf:"files"`
	Reasoning    *bool `koanf:"reasoning"`
	Temperature  *bool `koanf:"temperature"`
}

// endpoint is one row of the table of presets.
type endpoint struct {
	preset       Preset
	capabilities Capabilities
}

// endpoints is the table of presets, in the order in which they are listed.
func endpoints() []endpoint {
	everything := Capabilities{Stateful: true, Store: true, ToolChoice: true, Images: true, Files: true, Reasoning: true, Temperature: true}
	// The local servers run models that take pictures at best, and forget each answer
	// once it is given.
	local := Capabilities{Store: true, ToolChoice: true, Images: true, Temperature: true}
	openAI, ollama, lmStudio, openRouter := everything, local, local, everything
	openAI.AllowedTools = true  // known of no other
	ollama.ToolChoice = false   // it takes a tool choice and lets the model choose
	lmStudio.Stateful = true    // the one among them that remembers
	openRouter.Stateful = false // it passes requests on, and keeps none
	return []endpoint{
		{PresetOpenAI, openAI},
		{PresetAzure, everything},
		{PresetOllama, ollama},
		{PresetVLLM, local},
		{PresetLlamaCPP, local},
		{PresetLMStudio, lmStudio},
		{PresetOpenRouter, openRouter},
	}
}

// unknownEndpoint is the record of an endpoint of which nothing is known. Memory is not
// relied on, since its lack would show in nothing but bad answers, and reasoning is not
// asked for, since most servers refuse the question. All else is sent: whoever cannot
// take it says so.
func unknownEndpoint() Capabilities {
	return Capabilities{Store: true, ToolChoice: true, Images: true, Files: true, Temperature: true}
}

// capability is one member of the record: its name in the file, and where it stands.
type capability struct {
	name     string
	of       func(*Capabilities) *bool
	override func(CapabilityOverrides) *bool
}

// capabilities is the table of the record's members, in the order in which they are
// listed.
func capabilities() []capability {
	return []capability{
		{"stateful", func(c *Capabilities) *bool { return &c.Stateful }, func(o CapabilityOverrides) *bool { return o.Stateful }},
		{"store", func(c *Capabilities) *bool { return &c.Store }, func(o CapabilityOverrides) *bool { return o.Store }},
		{"toolChoice", func(c *Capabilities) *bool { return &c.ToolChoice }, func(o CapabilityOverrides) *bool { return o.ToolChoice }},
		{"allowedTools", func(c *Capabilities) *bool { return &c.AllowedTools }, func(o CapabilityOverrides) *bool { return o.AllowedTools }},
		{"images", func(c *Capabilities) *bool { return &c.Images }, func(o CapabilityOverrides) *bool { return o.Images }},
		{"files", func(c *Capabilities) *bool { return &c.Files }, func(o CapabilityOverrides) *bool { return o.Files }},
		{"reasoning", func(c *Capabilities) *bool { return &c.Reasoning }, func(o CapabilityOverrides) *bool { return o.Reasoning }},
		{"temperature", func(c *Capabilities) *bool { return &c.Temperature }, func(o CapabilityOverrides) *bool { return o.Temperature }},
	}
}

// Capabilities returns what the provider can do: what its preset says, or what is
// assumed of an unknown one, with the overrides applied. Of the demo provider nothing
// is assumed, and the settings of openai do not concern it.
func (c Config) Capabilities() Capabilities {
	record := unknownEndpoint()
	if c.Provider != ProviderOpenAI {
		return record
	}
	preset := c.OpenAI.preset()
	for _, e := range endpoints() {
		if e.preset == preset {
			record = e.capabilities
		}
	}
	for _, m := range capabilities() {
		if v := m.override(c.OpenAI.Capabilities); v != nil {
			*m.of(&record) = *v
		}
	}
	return record
}

// preset returns the preset that was chosen, or else the one that the address gives
// away for certain; empty when it gives none away.
func (o OpenAI) preset() Preset {
	if o.Preset != "" {
		return o.Preset
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "api.openai.com":
		return PresetOpenAI
	case strings.HasSuffix(host, ".openai.azure.com"):
		return PresetAzure
	case host == "openrouter.ai":
		return PresetOpenRouter
	case u.Port() == "11434":
		// Nobody but Ollama has this port by default, unlike 8000 and 8080.
		return PresetOllama
	}
	return ""
}

// deriveEndpoint notes the preset of the address, and what the capabilities that nobody
// set depend on.
func (c *Config) deriveEndpoint() {
	if c.Provider != ProviderOpenAI {
		return
	}
	if c.OpenAI.Preset == "" {
		why := "nothing is known of openai.baseURL"
		if c.OpenAI.Preset = c.OpenAI.preset(); c.OpenAI.Preset != "" {
			why = "openai.baseURL says so"
		}
		c.sources["openai.preset"] = Source{Kind: FromDefault, Why: why}
	}
	for _, m := range capabilities() {
		if m.override(c.OpenAI.Capabilities) == nil {
			c.sources["openai.capabilities."+m.name] = Source{Kind: FromDefault, Why: "openai.preset is " + c.presetName()}
		}
	}
}

// presetName renders the preset for people; empty for the demo provider, which has
// none.
func (c Config) presetName() string {
	switch {
	case c.Provider != ProviderOpenAI:
		return ""
	case c.OpenAI.preset() == "":
		return "none"
	}
	return string(c.OpenAI.preset())
}

// presetProblems returns what is wrong with the preset.
func (o OpenAI) presetProblems() Problems {
	var valid []string
	for _, e := range endpoints() {
		if o.Preset == "" || o.Preset == e.preset {
			return nil
		}
		valid = append(valid, string(e.preset))
	}
	return Problems{`openai.preset: "` + string(o.Preset) + `" is unknown; want one of ` + strings.Join(valid, ", ") + ", or leave it out"}
}
