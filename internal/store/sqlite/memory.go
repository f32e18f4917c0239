package sqlite

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

const (
	// maxRemembered is how many sessions are remembered.
	maxRemembered = 1024
	// maxSaid is how many texts of a session are remembered.
	maxSaid = 4
	// maxTurns is how many turns a session may have, and maxSession how many bytes its texts,
	// for its standing to be remembered.
	maxTurns   = 512
	maxSession = 16 << 10
)

// memory is what need not be read from the file: this process alone writes it, and knows
// what it has written of the sessions that had turns lately. What it does not know is read
// or written once more.
//
// Units of writing change it in their order: while a unit runs what it may change is not
// known, and what it has changed is learned once it is durable, before anybody else writes.
type memory struct {
	seed     maphash.Seed
	mu       sync.Mutex // guards what follows
	sessions *simplelru.LRU[store.SessionKey, remembered]
}

// remembered is what is known of a session. Its slices are replaced, never changed.
type remembered struct {
	said     []said
	standing *standing // nil when it is not known
}

// said is a text that a session has said.
type said struct {
	sha256 string
	kept   bool // it is a text of the session
}

// standing is a session in which no turn is queued.
type standing struct {
	session agent.Session
	active  agent.TurnID
	turns   []uint64 // hashes of the ids of all of its turns
}

func newMemory() *memory {
	sessions, err := simplelru.NewLRU[store.SessionKey, remembered](maxRemembered, nil)
	if err != nil { // cannot happen: the size is not negative
		panic(err)
	}
	return &memory{seed: maphash.MakeSeed(), sessions: sessions}
}

// begin returns what is known of a session to a unit that changes it.
func (m *memory) begin(k store.SessionKey) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, there := m.sessions.Get(k)
	if there && known.standing != nil {
		m.sessions.Add(k, remembered{said: known.said})
	}
	return known
}

// learn remembers what is known of a session from now on.
func (m *memory) learn(k store.SessionKey, r remembered) {
	if r.standing != nil && !r.standing.fits() {
		r.standing = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions.Add(k, r)
}

// forget forgets a session: one that is erased, and may begin anew.
func (m *memory) forget(k store.SessionKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions.Remove(k)
}

// end forgets everything, of a file that is closed: nothing is learned any more.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions.Purge()
}

// standing returns what a turn meets, if that is known and the turn is not there yet.
func (m *memory) standing(k agent.TurnKey) (store.Standing, bool) {
	m.mu.Lock()
	known, _ := m.sessions.Get(sessionOf(k))
	m.mu.Unlock()
	at := known.standing
	if at == nil || slices.Contains(at.turns, m.hash(k.Turn)) {
		return store.Standing{}, false
	}
	sess := at.session
	return store.Standing{Session: &sess, Active: at.active}, true
}

// session returns a session, if it is known how it stands.
func (m *memory) session(k store.SessionKey) (agent.Session, bool) {
	m.mu.Lock()
	known, _ := m.sessions.Get(k)
	m.mu.Unlock()
	if known.standing == nil {
		return agent.Session{}, false
	}
	return known.standing.session, true
}

// met learns from a reading of what a turn meets, during which nobody wrote. Of a session
// that has turns already their ids are not known.
func (m *memory) met(k agent.TurnKey, at store.Standing) {
	if at.Session == nil || at.Session.Turns > 0 {
		return
	}
	key := sessionOf(k)
	known := m.begin(key)
	known.standing = &standing{session: *at.Session}
	m.learn(key, known)
}

func (m *memory) hash(id agent.TurnID) uint64 { return maphash.String(m.seed, string(id)) }

func sessionOf(k agent.TurnKey) store.SessionKey {
	return store.SessionKey{Org: k.Org, Session: k.Session}
}

// moves returns what a unit does that changes a session in another way than its turns do: it
// calls it, and does so once more when it is durable, since what came before it in the same
// transaction is learned only then.
func (s *Store) moves(org agent.OrgID, id agent.SessionID) func() {
	return func() { s.memory.begin(store.SessionKey{Org: org, Session: id}) }
}

// fits reports whether it is small enough to be remembered.
func (s standing) fits() bool {
	size := len(s.session.SystemPrompt) + len(s.session.ClientTools) + len(s.session.SolutionContext)
	return len(s.turns) <= maxTurns && size <= maxSession
}

// asInserted is a session as insertSession has written it.
func asInserted(s agent.Session) agent.Session {
	s.Version, s.Entry, s.Approved = 1, agent.EntryPending, nil
	s.CreatedAt = instant(micros(s.CreatedAt))
	return s
}

// opened returns the standing after a turn was opened in it at the given time; nil when that
// is not known. A session that is new with the turn stands as it was written.
func (m *memory) opened(before *standing, n store.NewTurn, updated int64) *standing {
	var after standing
	switch {
	case n.Turn.Queued:
		return nil
	case n.SessionVersion == 0:
		after.session = asInserted(*n.Session)
	case before == nil:
		return nil
	default:
		after = *before
	}
	after.session.Turns++
	after.turns = append(slices.Clip(after.turns), m.hash(n.Turn.Key.Turn))
	if n.SolutionContext != nil {
		after.session.SolutionContext = *n.SolutionContext
	}
	after.advance(n.LastResponseID, n.ModeEntry, nil, updated)
	if !n.Turn.State.Terminal() {
		after.active = n.Turn.Key.Turn
	}
	return &after
}

// appended returns the standing after a transition of a turn, the active one since none is
// queued; nil when that is not known.
func (s *standing) appended(a store.Append, updated int64) *standing {
	if s == nil {
		return nil
	}
	after := *s
	if a.MovesSession() {
		after.advance(a.LastResponseID, a.ModeEntry, a.Approved, updated)
	}
	if a.State.Terminal() {
		after.active = ""
	}
	return &after
}

// advance is what Admit and MoveSession do in the file.
func (s *standing) advance(lastResponse *string, entry agent.ModeEntry, approved []string, updated int64) {
	if lastResponse != nil {
		s.session.LastResponseID = *lastResponse
	}
	if entry != "" {
		s.session.Entry = entry
	}
	if len(approved) > 0 {
		s.session.Approved = approved
	}
	s.session.UpdatedAt = instant(updated)
}
