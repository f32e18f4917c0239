package pipeline

import (
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
		if got := text(tt.t.before(tt.before)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
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
