package pipeline

import (
	"context"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/store"
)

// positions are where a store has turns.
type positions struct {
	store.Leasing
	at    map[agent.TurnKey]store.Position
	asked int // how many were asked for in the last look
}

func (p *positions) Positions(_ context.Context, keys []agent.TurnKey) (out []store.Position, err error) {
	p.asked = len(keys)
	for _, k := range keys {
		if at, ok := p.at[k]; ok {
			out = append(out, at)
		}
	}
	return out, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Whoever asks first and looks then is woken by whatever comes after the look, wherever
// the looks of the process fall.
func TestMoves_WakeWhenSomethingHasMoved(t *testing.T) {
	key := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	p := &positions{at: map[agent.TurnKey]store.Position{key: {Key: key, State: agent.TurnRunning, Steps: 2, Epoch: 1}}}
	m := &moves{others: true}
	look := func() {
		t.Helper()
		if err := m.look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	first := m.when(key)
	if look(); !isClosed(first) {
		t.Error("the first look cannot tell whether the turn has moved since it was asked for, and must wake")
	}
	for _, tt := range []struct {
		name string
		move func(*store.Position)
	}{
		{"a step", func(at *store.Position) { at.Steps++ }},
		{"another owner", func(at *store.Position) { at.Epoch++ }},
		{"another state", func(at *store.Position) { at.State = agent.TurnCompleted }},
	} {
		asked := m.when(key)
		if look(); isClosed(asked) {
			t.Errorf("%s: woken without a reason", tt.name)
		}
		at := p.at[key]
		tt.move(&at)
		p.at[key] = at
		if look(); !isClosed(asked) {
			t.Errorf("%s: not woken", tt.name)
		}
	}
	asked := m.when(key)
	delete(p.at, key)
	if look(); !isClosed(asked) {
		t.Error("erased: not woken")
	}
	asked = m.when(key)
	if m.has(key); !isClosed(asked) {
		t.Error("told: not woken")
	}
}

// Nobody is kept waiting for ever by what was forgotten, and what nobody asks for is.
func TestMoves_ForgetWhatNobodyAsksFor(t *testing.T) {
	key := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	p := &positions{at: map[agent.TurnKey]store.Position{key: {Key: key, State: agent.TurnRunning}}}
	m := &moves{others: true}
	m.when(key)
	for i := range 3 * staleLooks {
		asked := m.turns[key]
		if asked == nil {
			if i < staleLooks {
				t.Errorf("forgotten after %d looks", i)
			}
			break
		}
		if err := m.look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if p.asked = 0; m.look(t.Context(), p) != nil || p.asked != 0 {
		t.Error("it is looked at for ever")
	}
	waits := m.when(key)
	for range staleLooks {
		if err := m.look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if !isClosed(waits) {
		t.Error("one who waits is forgotten and not woken")
	}
}

// A copy of another node's log ends with that node's run of the turn.
func TestMoves_CloseTheCopyOfALogThatEnds(t *testing.T) {
	key := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	running := store.Position{Key: key, State: agent.TurnRunning, Steps: 2, Epoch: 1}
	for name, then := range map[string]map[agent.TurnKey]store.Position{
		"it rests":      {key: {Key: key, State: agent.TurnWaiting, Steps: 3, Epoch: 1}},
		"another owner": {key: {Key: key, State: agent.TurnRunning, Steps: 2, Epoch: 2}},
		"erased":        {},
	} {
		p := &positions{at: map[agent.TurnKey]store.Position{key: running}}
		m := &moves{others: true}
		copied := events.NewHub().Open(key, 1)
		m.follows(key, copied)
		_, grown, _ := copied.Reader(0).Next(t.Context())
		for range 3 * staleLooks { // however long nobody asks for the turn
			if err := m.look(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if isClosed(grown) {
			t.Errorf("%s: closed while it runs", name)
		}
		p.at = then
		if err := m.look(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if !isClosed(grown) {
			t.Errorf("%s: still open", name)
		}
	}
}
