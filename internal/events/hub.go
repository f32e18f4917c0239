package events

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// linger is how long a closed Log is still found. A turn may be over before those who
// have just been told of it have come to read.
const linger = 100 * time.Millisecond

// Being told of text costs its follower a packet, which is most of what a piece of text
// costs at all. So where many turns run, their text is gathered for a moment: as long as
// it takes to be told once in each of them at tellings a second for each processor, but
// not where that is no time to speak of, and never so long that a person sees it
// (decision D150).
const (
	tellings    = 16_667
	leastGather = 5 * time.Millisecond
	mostGather  = 10 * time.Millisecond
)

// Hub finds the Log of a turn that is running in this process, or has run a moment ago.
type Hub struct {
	mu   sync.Mutex // guards logs and open; never held together with a Log's mutex
	logs map[agent.TurnKey]*Log
	open int // logs that are not closed
	// gather is how long text is gathered now, in nanoseconds.
	gather atomic.Int64
	// share is how long it is for each log.
	share time.Duration
}

// NewHub returns a hub in which nothing runs.
func NewHub() *Hub {
	return &Hub{logs: make(map[agent.TurnKey]*Log), share: time.Second / time.Duration(tellings*runtime.GOMAXPROCS(0))}
}

// count counts a log that was opened, or closed. h.mu is held.
func (h *Hub) count(n int) {
	h.open += n
	gather := min(time.Duration(h.open)*h.share, mostGather)
	if gather < leastGather {
		gather = 0
	}
	h.gather.Store(int64(gather))
}

// Open begins the turn's Log; its next event has the sequence first. A turn has
// one Log at a time: one that is still open is closed, and its followers come back
// to Follow and find the new one.
func (h *Hub) Open(k agent.TurnKey, first int64) *Log {
	l := &Log{hub: h, key: k, first: first}
	h.mu.Lock()
	old := h.logs[k]
	h.logs[k] = l
	h.count(1)
	h.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return l
}

// Follow returns the turn's Log, which may be closed already. False means that nothing
// is live: the journal has everything there is.
func (h *Hub) Follow(k agent.TurnKey) (*Log, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.logs[k]
	return l, ok
}

// Forget lets nobody find the turn's Log any more: the journal has gone on without it.
func (h *Hub) Forget(k agent.TurnKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.logs, k)
}

// retire forgets a closed Log, in a moment if there is something in it to come for.
func (h *Hub) retire(l *Log, empty bool) {
	h.mu.Lock()
	h.count(-1)
	h.mu.Unlock()
	if empty {
		h.drop(l)
		return
	}
	time.AfterFunc(linger, func() { h.drop(l) })
}

// drop forgets a Log, unless the turn has got a new one meanwhile.
func (h *Hub) drop(l *Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logs[l.key] == l {
		delete(h.logs, l.key)
	}
}
