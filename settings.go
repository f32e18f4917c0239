package aptix

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/secret"
)

// Secret is a text that must not be shown: printed, logged or marshalled it comes out as
// ***.
type Secret string

// Format masks the secret for every verb of fmt.
func (s Secret) Format(f fmt.State, verb rune) { secret.New(string(s)).Format(f, verb) }

// MarshalText masks the secret in JSON and whatever else marshals text.
func (s Secret) MarshalText() ([]byte, error) { return secret.New(string(s)).MarshalText() }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return secret.New(string(s)).LogValue() }

// node returns what the server is made of.
func (c Config) node() (node.Config, error) {
	settings, err := config.Load(config.Options{File: c.File, LookupEnv: c.lookup, Program: c.values()})
	if err != nil {
		return node.Config{}, err
	}
	if err := settings.CheckSecrets(); err != nil {
		return node.Config{}, err
	}
	made := node.Config{Settings: settings, Log: c.Log, Version: version(), Modes: c.Modes, ModeTools: map[agent.ModeKey][]string{}}
	if made.Log == nil {
		made.Log = slog.Default()
	}
	return made, addTools(&made, c.Tools)
}

func (c Config) lookup(name string) (string, bool) {
	if c.LookupEnv == nil {
		return "", false
	}
	return c.LookupEnv(name)
}

// values returns what the fields set, by the name of the setting.
func (c Config) values() map[string]any {
	set := map[string]any{}
	put := func(key, value string) {
		if value != "" {
			set[key] = value
		}
	}
	put("data", c.Data)
	put("database", string(c.Database))
	if c.Model != (Model{}) {
		set["provider"] = string(config.ProviderOpenAI)
	}
	put("model", c.Model.Name)
	put("openai.baseURL", c.Model.BaseURL)
	put("openai.apiKey", string(c.Model.APIKey))
	if len(c.Hosts) > 0 {
		set["hosts"] = c.Hosts
	}
	return set
}

// version tells in the audit log which version of this module runs in which program.
func version() string {
	const module = "github.com/aptixhq/aptix"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "aptix, in another program"
	}
	v := info.Main.Version
	for _, d := range info.Deps {
		if d.Path == module {
			v = d.Version
		}
	}
	return fmt.Sprintf("aptix %s, in %s", v, info.Path)
}
