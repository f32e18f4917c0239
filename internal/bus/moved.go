package bus

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/aptixhq/aptix/internal/agent"
)

// maxMoves is how many hints may wait to go out.
const maxMoves = 4096

// Moved hints to all other nodes that the row of a turn has moved: it has begun, ended,
// got another owner, or is to be cancelled. It never waits. A hint is dropped when too
// many are waiting, and when there is no connection: those who care look at the row from
// time to time.
func (b *Bus) Moved(key agent.TurnKey) {
	select {
	case b.moves <- key:
	default:
		b.dropped.Add(1)
	}
}

// OnMoved registers who is told of the hints of others, a hint at a time. It must return
// quickly: hints that come meanwhile wait, and are dropped when they are too many.
func (b *Bus) OnMoved(tell func(agent.TurnKey)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, tell)
}

// tellMoves sends the hints of this node until the bus is closed; those that wait by
// then go out as well.
func (b *Bus) tellMoves() {
	for {
		select {
		case key := <-b.moves:
			b.tellMove(key)
			continue
		default:
		}
		select {
		case key := <-b.moves:
			b.tellMove(key)
		case <-b.stopping:
			return
		}
	}
}

func (b *Bus) tellMove(key agent.TurnKey) {
	if !b.Connected() {
		b.dropped.Add(1)
		return
	}
	b.send(b.subject("moved"), "", headerOf(key))
}

// told takes in a hint of another node.
func (b *Bus) told(m *nats.Msg) {
	h, err := decode[header](m.Data)
	if err != nil {
		b.unread(err)
		return
	}
	b.mu.Lock()
	listeners := b.listeners // it only grows, so those that are there stay in their places
	b.mu.Unlock()
	for _, tell := range listeners {
		tell(h.key())
	}
}

// errStray says that a message is about something else than it was sent for.
var errStray = errors.New("a message has come to the wrong place")
