package events

import (
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

// Hub finds the Log of a turn that is running in this process.
type Hub struct {
	mu   sync.Mutex // guards logs; never held together with a Log's mutex
	logs map[agent.TurnKey]*Log
}

// NewHub returns a hub in which nothing runs.
func NewHub() *Hub {
	return &Hub{logs: make(map[agent.TurnKey]*Log)}
}

// Open begins the turn's Log; its next event has the sequence first. A turn has
// one Log at a time: one that is still open is closed, and its followers come back
// to Follow and find the new one.
func (h *Hub) Open(k agent.TurnKey, first int64) *Log {
	l := &Log{hub: h, key: k, first: first}
	h.mu.Lock()
	old := h.logs[k]
	h.logs[k] = l
	h.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return l
}

// Follow returns the turn's Log. False means that nothing is live: the journal has
// everything there is.
func (h *Hub) Follow(k agent.TurnKey) (*Log, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.logs[k]
	return l, ok
}

// drop forgets a closed Log, unless the turn has got a new one meanwhile.
func (h *Hub) drop(l *Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logs[l.key] == l {
		delete(h.logs, l.key)
	}
}
