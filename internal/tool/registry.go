package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Registry is the fixed set of server tools of this process. What it is made of, its
// groups and reserved prefixes included, is said before it is used; from then on it is
// safe for concurrent use. A tool may be withdrawn meanwhile, and come back.
type Registry struct {
	tools       map[string]Tool
	definitions []Definition
	reserved    map[string]bool // folded names
	prefixes    []string        // folded
	groups      map[string][]string
	withdrawn   withdrawals
}

// NewRegistry returns a registry of these tools in this order. It refuses tools that
// are malformed or have the same name, and says all that is wrong with all of them
// (TUL-010 §3.1).
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{
		tools:    map[string]Tool{},
		reserved: map[string]bool{fold(ChangeMode): true, fold(ListModes): true},
	}
	var problems []error
	for i, t := range tools {
		if t == nil {
			problems = append(problems, fmt.Errorf("tool %d is nil", i+1))
			continue
		}
		d := t.Definition()
		wrong := d.problems()
		if r.tools[d.Name] != nil {
			wrong = append(wrong, "another tool has the same name")
		}
		for _, w := range wrong {
			problems = append(problems, fmt.Errorf("tool %d, %q: %s", i+1, d.Name, w))
		}
		r.tools[d.Name] = t
		r.definitions = append(r.definitions, d)
		r.reserved[fold(d.Name)] = true
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("register tools: %w", err)
	}
	return r, nil
}

// Reserve keeps the names that begin with the prefix for tools of the server, also those
// that it does not have now.
func (r *Registry) Reserve(prefix string) { r.prefixes = append(r.prefixes, fold(prefix)) }

// Check returns what keeps a definition from being shown to a model, nil when nothing
// does.
func (d Definition) Check() error {
	if wrong := d.problems(); len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// problems returns what keeps a definition from being shown to a model.
func (d Definition) problems() []string {
	var wrong []string
	if !validName(d.Name) {
		wrong = append(wrong, "its name does not match "+nameForm)
	}
	if strings.TrimSpace(d.Usage) == "" {
		wrong = append(wrong, "it has no usage metadata")
	}
	if strings.Contains(d.Usage, usageMark) {
		wrong = append(wrong, fmt.Sprintf("its usage metadata contains %q, which delimits the block it becomes part of", usageMark))
	}
	if _, err := compile(d.Parameters, goPattern); err != nil {
		wrong = append(wrong, fmt.Sprintf("its parameters are not a schema: %v", err))
	} else if d.Strict && !allowsStrict(d.Parameters) {
		wrong = append(wrong, "it is strict, but its schema does not require all members or permits others")
	}
	return wrong
}

// Get returns the tool with this name.
func (r *Registry) Get(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Names returns the names of all tools in the order of registration.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.definitions))
	for _, d := range r.definitions {
		names = append(names, d.Name)
	}
	return names
}

// Definitions returns what the model reads of all tools, in the order of
// registration.
func (r *Registry) Definitions() []Definition {
	out := slices.Clone(r.definitions)
	for i := range out {
		out[i].Parameters = bytes.Clone(out[i].Parameters)
	}
	return out
}

// Reserved reports whether a client must not use the name: it is the name of a
// server tool, or so close to one that a model would confuse them (decision 5), or it
// begins with a reserved prefix.
func (r *Registry) Reserved(name string) bool {
	folded := fold(name)
	return r.reserved[folded] ||
		slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(folded, p) })
}

// definition returns what the model reads of the tool with this name.
func (r *Registry) definition(name string) (Definition, bool) {
	i := slices.IndexFunc(r.definitions, func(d Definition) bool { return d.Name == name })
	if i < 0 {
		return Definition{}, false
	}
	return r.definitions[i], true
}

// same reports whether two JSON values are written alike but for white space and the
// escaping of strings.
func same(a, b json.RawMessage) bool {
	x, errX := normal(a)
	y, errY := normal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
