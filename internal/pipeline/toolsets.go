package pipeline

import (
	"encoding/json"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/tool"
)

// What toolSets remembers at most: so many sets, of client tools of so many bytes.
const (
	maxToolSets      = 128
	maxToolSetsBytes = 64 << 10
)

// toolSets remembers merged tools. Most turns of a client have the same ones, a catalogue,
// which its hash names, does not change, and of the registry only which tools are withdrawn.
type toolSets struct {
	mu   sync.Mutex // guards sets
	sets map[toolSetKey]tool.Set
}

type toolSetKey struct {
	client  string // the client's tools as JSON
	catalog string // its hash
	mode    agent.ModeKey
	// changes is the registry's count.
	changes int64
}

func (c *toolSets) merge(clientTools json.RawMessage, catalog string, m mode.Mode, r *tool.Registry) tool.Set {
	if len(clientTools) > maxToolSetsBytes {
		return mergeTools(clientTools, m, r)
	}
	key := toolSetKey{string(clientTools), catalog, m.Key, r.Changes()}
	c.mu.Lock()
	set, ok := c.sets[key]
	c.mu.Unlock()
	if ok {
		return set
	}
	set = mergeTools(clientTools, m, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil || len(c.sets) >= maxToolSets {
		c.sets = map[toolSetKey]tool.Set{}
	}
	c.sets[key] = set
	return set
}

// mergeTools merges what the mode leaves of the client's tools with those that it brings.
func mergeTools(clientTools json.RawMessage, m mode.Mode, r *tool.Registry) tool.Set {
	return tool.Merge(tool.Only(clientTools, m.ClientTools.Admits), m.Tools, r)
}
