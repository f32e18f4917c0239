package telemetry

import (
	"sync"
	"sync/atomic"
)

// other stands for all names beyond maxNames.
const other = "other"

// maxNames bounds how many names of modes, tools and models become labels. They come from
// configuration, which may change while the server runs; each is a series for ever.
const maxNames = 500

// names are those that have become labels.
type names struct {
	known sync.Map // of struct{}, by name
	count atomic.Int64
}

// label returns a name as it may stand in a label.
func (n *names) label(name string) string {
	if name == "" {
		return other
	}
	if _, ok := n.known.Load(name); ok {
		return name
	}
	if n.count.Load() >= maxNames {
		return other
	}
	if _, twice := n.known.LoadOrStore(name, struct{}{}); !twice {
		n.count.Add(1)
	}
	return name
}
