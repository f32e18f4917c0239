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

// toolSets remembers merged tools. Most turns of a client have the same ones, and
// neither the catalogue nor the registry changes.
type toolSets struct {
	mu   sync.Mutex // guards sets
	sets map[toolSetKey]tool.Set
}

type toolSetKey struct {
	client string // the client's tools as JSON
	mode   agent.ModeKey
}

func (c *toolSets) merge(clientTools json.RawMessage, m mode.Mode, r *tool.Registry) tool.Set {
	if len(clientTools) > maxToolSetsBytes {
		return tool.Merge(clientTools, m.Tools, r)
	}
	key := toolSetKey{string(clientTools), m.Key}
	c.mu.Lock()
	set, ok := c.sets[key]
	c.mu.Unlock()
	if ok {
		return set
	}
	set = tool.Merge(clientTools, m.Tools, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil || len(c.sets) >= maxToolSets {
		c.sets = map[toolSetKey]tool.Set{}
	}
	c.sets[key] = set
	return set
}
