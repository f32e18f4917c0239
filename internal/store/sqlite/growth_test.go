package sqlite

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

// logged returns how many bytes the log holds: all that was written, as long as it is
// not folded into the data file.
func logged(t testing.TB, s *Store) int64 {
	t.Helper()
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// unfolded opens a store whose log only grows, without waiting for the disk.
func unfolded(t testing.TB) *Store {
	t.Helper()
	s := temporary(t)
	execute(t, s, "PRAGMA wal_autocheckpoint = 0")
	s.writer.foldAfter = 0
	execute(t, s, "PRAGMA synchronous = OFF")
	return s
}

// A turn writes no more bytes in a longer session.
func TestTurn_WritesTheSameInALongSession(t *testing.T) {
	s := unfolded(t)
	written := func(from, to int) int64 {
		before := logged(t, s)
		for i := from; i < to; i++ {
			if err := benchTurn(s, key(1, i), int64(min(i, 1)), t); err != nil {
				t.Fatal(err)
			}
		}
		return (logged(t, s) - before) / int64(to-from)
	}
	written(0, 10)
	short := written(10, 30)
	written(30, 230)
	long := written(230, 250)
	t.Logf("a turn writes %d bytes after 10 turns and %d after 230", short, long)
	if long > short*12/10 {
		t.Errorf("a turn writes %d bytes after 10 turns and %d after 230", short, long)
	}
}

// A turn that is over when it becomes durable, as short ones are, writes few pages: those
// that hold its row and its steps, and one of each index, of the session, and of what the
// file counts its pages with. The pages that a first turn of a session adds are in it by a tenth.
func TestTurn_WritesFewPages(t *testing.T) {
	const turns, most = 200, 12
	s := unfolded(t)
	item := json.RawMessage(`{"type":"message","content":"` + strings.Repeat("x", 300) + `"}`)
	last := "resp_1"
	write := func() {
		k := key(rand.Text(), rand.Text())
		for turn := range 10 {
			k.Turn = agent.TurnID(rand.Text())
			n := newTurn(k.Session, k.Turn, int64(min(turn, 1)))
			n.Turn.State, n.Turn.Request, n.Turn.Tools, n.Turn.Response = agent.TurnCompleted, item, bytes.Repeat(item, 4), item
			n.LastResponseID = &last
			n.Steps = append(n.Steps,
				agent.Step{N: 2, Kind: agent.StepAsked, FirstEvent: 2, Asked: &agent.Asked{Call: 1, WireHead: strings.Repeat("x", 2800), NewItems: []json.RawMessage{item}}},
				agent.Step{N: 3, Kind: agent.StepAnswered, FirstEvent: 3, Answered: &agent.Answered{Call: 1, Items: []json.RawMessage{item}}},
				agent.Step{N: 4, Kind: agent.StepSettled, FirstEvent: 4, Settled: &agent.Settled{State: agent.TurnCompleted, Response: item}})
			if err := s.OpenTurn(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	const frame = 24 + 4096
	before := logged(t, s)
	for range turns / 10 {
		write()
	}
	pages := float64(logged(t, s)-before) / frame / turns
	t.Logf("a turn writes %.1f pages", pages)
	if pages > most {
		t.Errorf("a turn writes %.1f pages, more than %d", pages, most)
	}
}

// BenchmarkContent opens turns that bring a content of 1 MiB, which the file holds
// once, or three times: as a blob and in the two forms of the request.
func BenchmarkContent(b *testing.B) {
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprint("cut=", known), func(b *testing.B) {
			s := unfolded(b)
			i, before := 0, logged(b, s)
			for b.Loop() {
				if err := s.OpenTurn(b.Context(), contentTurn(key(i, 1), 0, 1<<20, known)); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(logged(b, s)-before)/float64(i), "written-B/op")
		})
	}
}

// BenchmarkSteps reads the journal of a turn that brought 1 MiB.
func BenchmarkSteps(b *testing.B) {
	s := temporary(b)
	n := contentTurn(key(1, 1), 0, 1<<20, true)
	n.Turn.State = agent.TurnCompleted
	if err := s.OpenTurn(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Steps(b.Context(), key(1, 1)); err != nil {
			b.Fatal(err)
		}
	}
}

// What is folded is in the data file, and the log is then written from its beginning.
func TestLog_IsFolded(t *testing.T) {
	s := temporary(t)
	s.writer.foldAfter = 0
	size := func() int64 {
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	n := 0
	const turns = 64
	write := func() {
		for range turns {
			if err := benchTurn(s, key(1, n), int64(min(n, 1)), t); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	write()
	first := logged(t, s)
	for range 9 {
		if err := s.upkeep.fold(t.Context()); err != nil {
			t.Fatal(err)
		}
		write()
	}
	if last := logged(t, s); last > 2*first {
		t.Errorf("the log has %d bytes after %d turns and %d after ten times as many", first, turns, last)
	}
	// The writer sees to it by itself.
	before := size()
	s.writer.foldAfter = turns
	write()
	eventually(t, "the folding", func() bool { return size() > before })
}
