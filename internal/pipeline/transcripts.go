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
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
)

// transcriptBytes bounds the transcripts that are kept in memory, in bytes of items.
const transcriptBytes = 32 << 20

// transcript returns that of a session, of the turns before an ordinal unless that is 0.
// The caller must not change its items. What was read once is kept: a completed turn
// never changes. A turn that completes here leaves its items, too (see remember), so that
// the next one in its session reads nothing.
func (p *Pipeline) transcript(ctx context.Context, s agent.Session, before int64) (transcript, error) {
	key := store.SessionKey{Org: s.Org, Session: s.ID}
	known := p.transcripts.get(key, s.CreatedAt).proven(s.Turns)
	through := before - 1
	if before == 0 {
		through = s.Turns
	}
	if known.through < through {
		turns, err := p.Store.Transcript(ctx, s.Org, s.ID, known.last(), before)
		if err != nil {
			return transcript{}, fmt.Errorf("read transcript of session %s: %w", s.ID, err)
		}
		known = known.with(turns)
		if before != 0 {
			known.through = through // the turn runs, so those before it are over
		}
	}
	p.transcripts.put(key, known)
	return known.before(before), nil
}

// ending is what a turn leaves to the next ones of its session when it completes.
type ending struct {
	earlier transcript // through the turn before it
	// presumed tells that nobody has said what the turn's ordinal is; see transcript.
	presumed  bool
	completed bool
	items     []json.RawMessage
}

// ending returns what a turn leaves that replays what is earlier, nil where nothing is
// replayed.
func (p *Pipeline) ending(earlier transcript, presumed bool) *ending {
	if p.Chain {
		return nil
	}
	return &ending{earlier: earlier, presumed: presumed}
}

// remember keeps the items of a turn that has completed, with those before it. The caller
// holds the session's lock, and knows that the session was not erased.
func (p *Pipeline) remember(key agent.TurnKey, e *ending) {
	t := e.earlier.with([]store.TurnItems{{Ordinal: e.earlier.through + 1, Items: e.items}})
	t.presumed = e.presumed
	p.transcripts.put(store.SessionKey{Org: key.Org, Session: key.Session}, t)
}

// transcript is that of a session, as far as it is known. It is a value: with makes
// another one, which may share its items.
type transcript struct {
	// created tells a session from one of the same name that was erased.
	created time.Time
	// through is up to which ordinal it is known: all turns up to there are over, and in it
	// if they have completed.
	through  int64
	ordinals []int64 // of the completed turns
	ends     []int   // how many items there are up to each of them
	items    []json.RawMessage
	whole    int // how many of the first items are whole; see llm.Whole
	bytes    int
	// presumed tells that the last turn was opened when the session had counted the turns
	// before it, and has the next ordinal unless another node was quicker.
	presumed bool
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
		items, whole := llm.Whole(turn.Items)
		if whole && t.whole == len(t.items) {
			t.whole += len(items)
		}
		t.items = append(t.items, items...)
		t.ordinals, t.ends = append(t.ordinals, turn.Ordinal), append(t.ends, len(t.items))
		t.bytes += llm.Size(items)
	}
	t.through = max(t.through, t.last())
	return t
}

// proven returns what is certain of it, for a session that has counted so many turns. If
// that is the presumed turn and those before it, no other was opened beside it.
func (t transcript) proven(turns int64) transcript {
	if t.presumed && t.through != turns {
		t = t.before(t.through)
	}
	t.presumed = false
	return t
}

// before returns it without the turns from an ordinal on; 0 is no bound.
func (t transcript) before(ordinal int64) transcript {
	if ordinal == 0 || ordinal > t.through {
		return t
	}
	n := sort.Search(len(t.ordinals), func(i int) bool { return t.ordinals[i] >= ordinal })
	end := 0
	if n > 0 {
		end = t.ends[n-1]
	}
	t.bytes -= llm.Size(t.items[end:])
	t.through, t.ordinals, t.ends = ordinal-1, t.ordinals[:n], t.ends[:n]
	t.items, t.whole = t.items[:end:end], min(t.whole, end)
	return t
}

// replayed is what the reasoner needs of it.
func (t transcript) replayed() reasoner.Transcript {
	return reasoner.Transcript{Items: t.items[:len(t.items):len(t.items)], Whole: t.whole}
}

// says reports whether it says all that u does, which is of the same session.
func (t transcript) says(u transcript) bool {
	return t.through > u.through || t.through == u.through && (!t.presumed || u.presumed)
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

// put keeps a transcript, instead of one that says less or of another session's.
func (c *transcripts) put(key store.SessionKey, t transcript) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.sessions[key]; e != nil {
		if old := e.Value.(*kept).transcript; old.created.Equal(t.created) && old.says(t) {
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
