package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func said(ordinal int64, items ...string) store.TurnItems {
	t := store.TurnItems{Ordinal: ordinal}
	for _, i := range items {
		t.Items = append(t.Items, json.RawMessage(i))
	}
	return t
}

func text(items []json.RawMessage) string {
	var out []string
	for _, i := range items {
		out = append(out, string(i))
	}
	return strings.Join(out, " ")
}

func TestTranscript_IsCutBeforeATurn(t *testing.T) {
	short := transcript{}.with([]store.TurnItems{said(1, "a", "b"), said(4, "c")})
	long := short.with([]store.TurnItems{said(5), said(6, "d")})
	other := short.with([]store.TurnItems{said(7, "e")}) // shares with long what is in short
	for _, tt := range []struct {
		name   string
		t      transcript
		before int64
		want   string
	}{
		{"whole", long, 0, "a b c d"},
		{"before the first", long, 1, ""},
		{"between", long, 3, "a b"},
		{"before a turn", long, 4, "a b"},
		{"a turn without items", long, 6, "a b c"},
		{"beyond the end", long, 100, "a b c d"},
		{"the one that it was made of", short, 0, "a b c"},
		{"another made of it", other, 0, "a b c e"},
		{"empty", transcript{}, 0, ""},
	} {
		if got := text(tt.t.before(tt.before).items); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// keeper is a store that has the transcript of one session, and counts how often it is read.
type keeper struct {
	Store
	turns []store.TurnItems
	reads int
}

func (k *keeper) Transcript(_ context.Context, _ agent.OrgID, _ agent.SessionID, after, before int64) (out []store.TurnItems, _ error) {
	k.reads++
	for _, t := range k.turns {
		if t.Ordinal > after && (before == 0 || t.Ordinal < before) {
			out = append(out, t)
		}
	}
	return out, nil
}

// What a turn leaves as it ends stands for what the journal says, as long as nobody else
// can have written there; of what is read it is no part.
func TestTranscript_OfATurnThatEndedHere(t *testing.T) {
	then := time.UnixMicro(1)
	for _, tt := range []struct {
		name     string
		presumed bool
		left     []store.TurnItems // in the journal by then
		turns    int64             // that the session counts
		before   int64
		created  time.Time
		want     string
		reads    int
	}{
		{"the next turn", true, nil, 2, 0, then, "a b mine", 0},
		{"the next turn, once it waits", true, nil, 2, 3, then, "a b mine", 0},
		{"one that failed came after it", true, []store.TurnItems{said(2, "mine")}, 3, 0, then, "a b mine", 1},
		{"another node was quicker", true, []store.TurnItems{said(2, "theirs"), said(3, "mine")}, 3, 0, then, "a b theirs mine", 1},
		{"another node went on", true, []store.TurnItems{said(2, "mine"), said(3, "theirs")}, 3, 0, then, "a b mine theirs", 1},
		{"one waits behind it", true, []store.TurnItems{said(2, "mine")}, 3, 3, then, "a b mine", 1},
		{"its ordinal is known", false, nil, 3, 3, then, "a b mine", 0},
		{"its ordinal is known, and another came", false, []store.TurnItems{said(2, "mine"), said(3, "theirs")}, 3, 0, then, "a b mine theirs", 1},
		{"the session of another", true, []store.TurnItems{said(1, "new")}, 2, 0, time.UnixMicro(2), "new", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &keeper{turns: []store.TurnItems{said(1, "a", "b")}}
			p := &Pipeline{Config: Config{Store: k}}
			s := agent.Session{Org: "acme", ID: "s1", CreatedAt: then, Turns: 1}
			earlier, err := p.transcript(t.Context(), s, 0)
			if err != nil || k.reads != 1 {
				t.Fatalf("read %d times: %v", k.reads, err)
			}
			p.remember(agent.TurnKey{Org: "acme", Session: "s1", Turn: "mine"},
				&ending{earlier: earlier, presumed: tt.presumed, completed: true, items: said(2, "mine").Items})
			s.Turns, s.CreatedAt, k.reads = tt.turns, tt.created, 0
			if k.turns = append(k.turns, tt.left...); !tt.created.Equal(then) {
				k.turns = tt.left
			}
			for again := range 2 { // what is kept of it is the same
				got, err := p.transcript(t.Context(), s, tt.before)
				if err != nil || text(got.items) != tt.want || got.whole != len(got.items) {
					t.Errorf("got %q, %d items whole, and %v, want %q", text(got.items), got.whole, err, tt.want)
				}
				if again == 0 && k.reads != tt.reads {
					t.Errorf("read %d times, want %d", k.reads, tt.reads)
				}
			}
		})
	}
}

// A turn that leaves what it said when others have gone on already changes nothing.
func TestTranscript_LeftTooLate(t *testing.T) {
	k := &keeper{turns: []store.TurnItems{said(1, "a"), said(2, "mine"), said(3, "b")}}
	p := &Pipeline{Config: Config{Store: k}}
	s := agent.Session{Org: "acme", ID: "s1", CreatedAt: time.UnixMicro(1), Turns: 3}
	if _, err := p.transcript(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	p.remember(agent.TurnKey{Org: "acme", Session: "s1", Turn: "mine"}, &ending{presumed: true, completed: true,
		earlier: transcript{created: s.CreatedAt}.with([]store.TurnItems{said(1, "a")}), items: said(2, "mine").Items})
	if got, err := p.transcript(t.Context(), s, 0); err != nil || text(got.items) != "a mine b" || k.reads != 1 {
		t.Errorf("got %q with %d reads and %v", text(got.items), k.reads, err)
	}
}

func TestTranscripts_KeepWhatIsNewestOfASession(t *testing.T) {
	var c transcripts
	key := store.SessionKey{Org: "acme", Session: "s1"}
	then, now := time.UnixMicro(1), time.UnixMicro(2)
	short := c.get(key, then).with([]store.TurnItems{said(1, "a")})
	long := short.with([]store.TurnItems{said(2, "b")})
	kept := func(created time.Time) string { return text(c.get(key, created).items) }
	c.put(key, long)
	c.put(key, short) // read before, and late
	if got := kept(then); got != "a b" {
		t.Errorf("kept %q", got)
	}
	if got := kept(now); got != "" {
		t.Errorf("a session that was erased and made anew has %q of the old one", got)
	}
	c.put(key, c.get(key, now).with([]store.TurnItems{said(1, "new")}))
	if got := kept(now) + kept(then); got != "new" {
		t.Errorf("kept %q", got)
	}
	c.forget(key)
	if got := kept(now); got != "" || c.bytes != 0 {
		t.Errorf("kept %q and %d bytes of an erased session", got, c.bytes)
	}
}

func TestTranscripts_AreBounded(t *testing.T) {
	var c transcripts
	key := func(i int) store.SessionKey {
		return store.SessionKey{Org: "acme", Session: agent.SessionID(fmt.Sprint(i))}
	}
	item := strings.Repeat("x", transcriptBytes/10)
	put := func(i, items int) {
		var turn store.TurnItems
		for range items {
			turn.Items = append(turn.Items, json.RawMessage(item))
		}
		turn.Ordinal = 1
		c.put(key(i), transcript{}.with([]store.TurnItems{turn}))
	}
	put(100, 4) // too large to be kept
	for i := range 30 {
		put(i, 1)
		c.get(key(0), time.Time{}) // used all the time
	}
	if c.bytes > transcriptBytes || len(c.sessions) != 10 || c.order.Len() != 10 {
		t.Errorf("%d bytes of %d sessions are kept", c.bytes, len(c.sessions))
	}
	for i, want := range map[int]bool{0: true, 29: true, 1: false, 100: false} {
		if got := c.sessions[key(i)] != nil; got != want {
			t.Errorf("session %d is kept: %t, want %t", i, got, want)
		}
	}
}
