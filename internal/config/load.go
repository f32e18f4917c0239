package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/secret"
)

// Options say what to read. The zero value reads the process's environment and
// DefaultFile if it is there.
type Options struct {
	// File is the configuration file. When it is empty, APTIX_CONFIG names it, and else
	// DefaultFile is read if it exists.
	File string
	// Flags are the values that were set on the command line, by key.
	Flags map[string]string
	// LookupEnv reads a variable; nil means os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Program are the values that a program sets which has the server in it, by key. They
	// go over all others, and where there are any DefaultFile is left alone: it belongs to
	// a server of its own.
	Program map[string]any
}

// Problems are all that is wrong with a configuration.
type Problems []string

// Error lists every problem on a line of its own.
func (p Problems) Error() string {
	return "the configuration is not valid:\n  " + strings.Join(p, "\n  ")
}

// maxFile bounds the configuration file and the files that hold secrets.
const maxFile = 1 << 20

// Load reads a server's configuration and checks it. Its error is a Problems.
func Load(o Options) (Config, error) {
	env := environment{lookup: o.LookupEnv}
	if env.lookup == nil {
		env.lookup = os.LookupEnv
	}
	c := Config{sources: map[string]Source{}}
	var problems Problems

	fileValues, err := c.readFile(o, env)
	if err != nil {
		problems = append(problems, err.Error())
	}
	problems = append(problems, misfits(fileValues, c.File)...)
	if len(problems) > 0 {
		return c, problems // what the rest would say depends on what is wrong here
	}

	merged := koanf.New(".")
	add := func(values map[string]any, source func(key string) Source) {
		layer := koanf.New(".")
		if err := errors.Join(layer.Load(confmap.Provider(values, "."), nil), merged.Load(confmap.Provider(values, "."), nil)); err != nil {
			problems = append(problems, err.Error())
		}
		for _, key := range layer.Keys() {
			c.sources[key] = source(key)
		}
	}
	add(defaults(), func(string) Source { return Source{Kind: FromDefault} })
	add(fileValues, func(string) Source { return Source{Kind: FromFile, Name: c.File} })
	envValues, names, faults := env.settings()
	problems = append(problems, faults...)
	add(envValues, func(key string) Source { return Source{Kind: FromEnv, Name: names[key]} })
	flags := map[string]any{}
	for key, value := range o.Flags {
		flags[key] = value
	}
	add(flags, func(key string) Source { return Source{Kind: FromFlag, Name: "--" + strings.ReplaceAll(key, ".", "-")} })
	add(o.Program, func(string) Source { return Source{Kind: FromProgram} })

	if err := decode(merged.Raw(), &c, nil); err != nil {
		problems = append(problems, lines(err)...)
	}
	c.derive()
	problems = append(problems, c.MCP.readHeaders(env)...)
	problems = append(problems, c.Telemetry.OTLP.read(env)...)
	problems = append(problems, c.problems()...)
	if len(problems) > 0 {
		return c, problems
	}
	return c, nil
}

// readFile reads the configuration file, if there is one.
func (c *Config) readFile(o Options, env environment) (map[string]any, error) {
	name, source := o.File, "--config"
	if name == "" {
		name, source = env.get("APTIX_CONFIG"), "APTIX_CONFIG"
	}
	optional := name == ""
	if optional && o.Program != nil {
		return nil, nil
	}
	if optional {
		name = DefaultFile
	}
	b, err := readBounded(name)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		if !optional {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		return nil, err
	}
	c.File = name
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if odd, ok := unnamed(values); ok {
		return nil, fmt.Errorf("%s: %v is not the name of a setting; a name is text, and what is not goes in quotes", name, odd)
	}
	return withoutNulls(values), nil
}

// unnamed finds a member that has a number or the like for a name. The decoder falls over
// it.
func unnamed(v any) (name any, found bool) {
	switch v := v.(type) {
	case map[any]any:
		for k, inner := range v {
			if _, ok := k.(string); !ok {
				return k, true
			}
			if name, found = unnamed(inner); found {
				return name, true
			}
		}
	case map[string]any:
		for _, inner := range v {
			if name, found = unnamed(inner); found {
				return name, true
			}
		}
	case []any:
		for _, inner := range v {
			if name, found = unnamed(inner); found {
				return name, true
			}
		}
	}
	return nil, false
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return b, nil
}

// withoutNulls leaves out members without a value, such as a heading under which
// everything is commented out: they set nothing.
func withoutNulls(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			out[k] = withoutNulls(v)
		default:
			out[k] = v
		}
	}
	return out
}

// misfits returns what in a file is unknown or of the wrong type.
func misfits(values map[string]any, file string) Problems {
	var c Config
	var md mapstructure.Metadata
	var out Problems
	if err := decode(values, &c, &md); err != nil {
		for _, l := range lines(err) {
			out = append(out, file+": "+l)
		}
	}
	slices.Sort(md.Unused)
	for _, key := range md.Unused {
		out = append(out, fmt.Sprintf("%s: unknown setting %s", file, key))
	}
	return out
}

// decode fills in a Config. Names are matched exactly and types are not bent: a number
// where text is wanted is a mistake worth hearing of.
func decode(values map[string]any, c *Config, md *mapstructure.Metadata) error {
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: c, Metadata: md, TagName: "koanf",
		MatchName:  func(key, field string) bool { return key == field },
		DecodeHook: written,
	})
	if err != nil {
		return err
	}
	return d.Decode(values)
}

// written reads what a file has in a form of its own: durations, and secrets.
func written(_, to reflect.Type, v any) (any, error) {
	s, ok := v.(string)
	switch to {
	case reflect.TypeFor[time.Duration]():
		return duration(s, v)
	case reflect.TypeFor[secret.Text]():
		if !ok {
			return nil, errors.New("want text; put it in quotes")
		}
		return secret.New(s), nil
	}
	return v, nil
}

// duration reads texts such as 10m; a bare number would be nanoseconds, which nobody
// means.
func duration(s string, v any) (any, error) {
	if s != "" {
		if d, err := time.ParseDuration(s); err == nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%v is not a duration such as 90s or 10m", v)
}

// lines splits a decoder's error into one line per fault.
func lines(err error) []string {
	var out []string
	for l := range strings.SplitSeq(err.Error(), "\n") {
		if l = strings.TrimLeft(l, "* "); l != "" && l != "decoding failed due to the following error(s):" {
			out = append(out, l)
		}
	}
	return out
}

// environment reads variables.
type environment struct {
	lookup func(string) (string, bool)
}

// get returns a variable; an empty one counts as unset.
func (e environment) get(name string) string {
	v, _ := e.lookup(name)
	return v
}

// settings returns the values that variables set, by key, and the variables' names.
func (e environment) settings() (values map[string]any, names map[string]string, problems Problems) {
	values, names = map[string]any{}, map[string]string{}
	for _, s := range settings() {
		if s.env == "" {
			continue
		}
		value, name, err := e.value(s.env, s.inFile)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if value != "" {
			values[s.key], names[s.key] = value, name
		}
	}
	return values, names, problems
}

// value returns what a variable says, directly or by naming a file that does, and the
// variable's name.
func (e environment) value(name string, inFile bool) (value, from string, err error) {
	value = e.get(name)
	if !inFile {
		return value, name, nil
	}
	file := e.get(name + "_FILE")
	switch {
	case file == "":
		return value, name, nil
	case value != "":
		return "", "", fmt.Errorf("%s and %s_FILE are both set; keep one", name, name)
	}
	b, err := readBounded(file)
	if err != nil {
		return "", "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	value = strings.TrimSpace(string(b))
	if value == "" {
		return "", "", fmt.Errorf("%s_FILE: %s is empty", name, file)
	}
	return value, name + "_FILE", nil
}
