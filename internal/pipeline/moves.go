package pipeline

import (
	"context"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/store"
)

// moves wakes those who wait here for a turn that does not run here: it waits for its
// session, or another node runs it. What this process does itself it tells at once; what
// others do is looked for from time to time, for all turns in one statement.
type moves struct {
	others bool // there may be other nodes

	mu    sync.Mutex // guards turns
	turns map[agent.TurnKey]*awaited
}

// awaited is a turn that somebody waits for.
type awaited struct {
	moved chan struct{} // closed at the next move
	// seen is where the turn was at the last look, nil before the first one.
	seen *store.Position
	// looks counts those since somebody has last asked.
	looks int
	// copied is the log of the node that runs the turn, as far as it gets here; nil when
	// nobody reads it.
	copied *events.Log
}

// staleLooks is after how many looks those who wait are woken in any case. A turn that
// nobody asks for again then is not looked at any more.
const staleLooks = 60

// when returns what is closed when the turn moves. Whoever has to be sure that nothing
// has happened before asks first, and looks then.
func (m *moves) when(key agent.TurnKey) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ask(key).moved
}

// follows lets a copy of another node's log end with that node's run of the turn. The
// node may be lost, or paused, and its log says nothing then.
func (m *moves) follows(key agent.TurnKey, copied *events.Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ask(key).copied = copied
}

// ask returns the entry of a turn. m.mu is held.
func (m *moves) ask(key agent.TurnKey) *awaited {
	a := m.turns[key]
	if a == nil {
		a = &awaited{moved: make(chan struct{})}
		if m.turns == nil {
			m.turns = map[agent.TurnKey]*awaited{}
		}
		m.turns[key] = a
	}
	a.looks = 0
	return a
}

// has tells that a turn has moved.
func (m *moves) has(key agent.TurnKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.turns[key]; a != nil {
		m.wake(key, a)
	}
}

// all wakes everybody.
func (m *moves) all() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, a := range m.turns {
		m.wake(key, a)
	}
}

// wake wakes those who wait for a turn. m.mu is held.
func (m *moves) wake(key agent.TurnKey, a *awaited) {
	close(a.moved)
	if !m.others {
		delete(m.turns, key) // nobody looks whether it is still needed
		return
	}
	// Where it was seen stays: the next who asks is woken by what comes after that.
	a.moved = make(chan struct{})
}

// look wakes those whose turns have moved since the last look. Of a turn that was not
// looked at before it cannot tell, so that counts as a move.
func (m *moves) look(ctx context.Context, nodes store.Leasing) error {
	asked := m.asked()
	if len(asked) == 0 {
		return nil
	}
	keys := make([]agent.TurnKey, 0, len(asked))
	for key := range asked {
		keys = append(keys, key)
	}
	positions, err := nodes.Positions(ctx, keys)
	if err != nil {
		return err
	}
	now := make(map[agent.TurnKey]store.Position, len(positions))
	for _, at := range positions {
		now[at.Key] = at
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, a := range asked {
		if m.turns[key] != a {
			continue
		}
		at := now[key] // the zero one when it was erased
		if a.copied != nil && (atRest(at.State) || at.Key != key || a.seen != nil && a.seen.Epoch != at.Epoch) {
			a.copied.Close()
			a.copied = nil
		}
		if a.seen == nil || *a.seen != at || a.looks == staleLooks {
			m.wake(key, a)
		}
		a.seen = &at
	}
	return nil
}

// asked returns the turns that are worth a look, and forgets the others.
func (m *moves) asked() map[agent.TurnKey]*awaited {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := make(map[agent.TurnKey]*awaited, len(m.turns))
	for key, a := range m.turns {
		if a.looks++; a.looks > staleLooks+1 && a.copied == nil {
			delete(m.turns, key)
			continue
		}
		asked[key] = a
	}
	return asked
}
