package pipeline

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// transcriptBytes bounds the transcripts that are kept in memory, in bytes of items.
const transcriptBytes = 32 << 20

// transcript returns the items of the completed turns of a session, of those before an
// ordinal unless that is 0. The caller must not change them. What was read once is kept:
// a completed turn never changes, and a turn in a long session then reads only the turn
// before it.
func (p *Pipeline) transcript(ctx context.Context, s agent.Session, before int64) ([]json.RawMessage, error) {
	key := store.SessionKey{Org: s.Org, Session: s.ID}
	known := p.transcripts.get(key, s.CreatedAt)
	if before == 0 || before > known.last()+1 {
		turns, err := p.Store.Transcript(ctx, s.Org, s.ID, known.last(), before)
		if err != nil {
			return nil, fmt.Errorf("read transcript of session %s: %w", s.ID, err)
		}
		known = known.with(turns)
		p.transcripts.put(key, known)
	}
	return known.before(before), nil
}

// transcript is that of a session, as far as it was read. It is a value: with makes
// another one, which may share its items.
type transcript struct {
	// created tells a session from one of the same name that was erased.
	created  time.Time
	ordinals []int64 // of the completed turns
	ends     []int   // how many items there are up to each of them
	items    []json.RawMessage
	bytes    int
}

// last is the ordinal of the newest turn in it. All before it are over: a session runs
// one turn at a time, in the order of their ordinals.
func (t transcript) last() int64 {
	if len(t.ordinals) == 0 {
		return 0
	}
	return t.ordinals[len(t.ordinals)-1]
}

func (t transcript) with(turns []store.TurnItems) transcript {
	// Whoever shares what there is must not see this grow: so it is copied, as the
	// little that it is beside the items themselves.
	n := len(t.ordinals)
	t.ordinals, t.ends, t.items = t.ordinals[:n:n], t.ends[:n:n], t.items[:len(t.items):len(t.items)]
	for _, turn := range turns {
		t.items = append(t.items, turn.Items...)
		t.ordinals, t.ends = append(t.ordinals, turn.Ordinal), append(t.ends, len(t.items))
		for _, item := range turn.Items {
			t.bytes += len(item)
		}
	}
	return t
}

func (t transcript) before(ordinal int64) []json.RawMessage {
	n := len(t.ordinals)
	if ordinal != 0 {
		n = sort.Search(n, func(i int) bool { return t.ordinals[i] >= ordinal })
	}
	if n == 0 {
		return nil
	}
	end := t.ends[n-1]
	return t.items[:end:end]
}

// transcripts keeps those that were used last, up to transcriptBytes.
type transcripts struct {
	mu       sync.Mutex // guards what follows
	sessions map[store.SessionKey]*list.Element
	order    list.List // of kept, the one used last in front
	bytes    int
}

type kept struct {
	key store.SessionKey
	transcript
}

// get returns what is kept of the session that was created then.
func (c *transcripts) get(key store.SessionKey, created time.Time) transcript {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.sessions[key]; e != nil {
		if t := e.Value.(*kept).transcript; t.created.Equal(created) {
			c.order.MoveToFront(e)
			return t
		}
	}
	return transcript{created: created}
}

// put keeps a transcript, instead of a shorter one or of another session's.
func (c *transcripts) put(key store.SessionKey, t transcript) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.sessions[key]; e != nil {
		if old := e.Value.(*kept).transcript; old.created.Equal(t.created) && old.last() >= t.last() {
			return
		}
		c.drop(e)
	}
	if t.bytes > transcriptBytes/4 || len(t.ordinals) == 0 {
		return // it would push out many others
	}
	if c.sessions == nil {
		c.sessions = map[store.SessionKey]*list.Element{}
	}
	c.sessions[key] = c.order.PushFront(&kept{key, t})
	for c.bytes += t.bytes; c.bytes > transcriptBytes; {
		c.drop(c.order.Back())
	}
}

// forget drops what is kept of an erased session.
func (c *transcripts) forget(key store.SessionKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.sessions[key]; e != nil {
		c.drop(e)
	}
}

func (c *transcripts) drop(e *list.Element) {
	k := e.Value.(*kept)
	c.order.Remove(e)
	delete(c.sessions, k.key)
	c.bytes -= k.bytes
}
