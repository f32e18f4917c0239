package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// benchTurn is what one turn with one model call costs the store: four commits.
func benchTurn(s *Store, k agent.TurnKey, version int64, b testing.TB) error {
	n := newTurn(k.Session, k.Turn, version)
	n.Turn.Request = json.RawMessage(`{"instruction":"What can you do?"}`)
	n.Turn.Tools = json.RawMessage(`[` + strings.Repeat(" ", 2000) + `]`)
	if err := s.OpenTurn(b.Context(), n); err != nil {
		return err
	}
	text := strings.Repeat("x", 4000)
	item := json.RawMessage(`{"type":"message","content":"` + text[:500] + `"}`)
	last := "resp_1"
	for _, a := range []store.Append{
		{State: agent.TurnRunning, Steps: []agent.Step{{N: 2, Kind: agent.StepAsked, FirstEvent: 2,
			Asked: &agent.Asked{Call: 1, Canonical: text, WireHead: text, NewItems: []json.RawMessage{item}}}}},
		{Steps: []agent.Step{{N: 3, Kind: agent.StepAnswered, FirstEvent: 3,
			Answered: &agent.Answered{Call: 1, Items: []json.RawMessage{item}, Deltas: []string{text[:500]}}}}},
		{State: agent.TurnCompleted, Response: item, LastResponseID: &last, Steps: []agent.Step{{N: 4, Kind: agent.StepSettled, FirstEvent: 4,
			Settled: &agent.Settled{State: agent.TurnCompleted, Response: item}}}},
	} {
		a.Key = k
		if err := s.AppendSteps(b.Context(), a); err != nil {
			return err
		}
	}
	return nil
}

func key(session, turn any) agent.TurnKey {
	return agent.TurnKey{Org: "acme", Session: agent.SessionID(fmt.Sprint("s", session)), Turn: agent.TurnID(fmt.Sprint("t", turn))}
}

// BenchmarkTurn runs turns in one session, of which so many are there already.
func BenchmarkTurn(b *testing.B) {
	for _, before := range []int{0, 2000} {
		b.Run(fmt.Sprint("before=", before), func(b *testing.B) {
			s := temporary(b)
			for i := range before {
				if err := benchTurn(s, key(1, i), int64(min(i, 1)), b); err != nil {
					b.Fatal(err)
				}
			}
			i := before
			for b.Loop() {
				if err := benchTurn(s, key(1, i), int64(min(i, 1)), b); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkTurns runs turns of many sessions at a time, which share their commits. It holds
// row L-12 of docs/limits.md.
func BenchmarkTurns(b *testing.B) {
	s := temporary(b)
	var sessions atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		session := sessions.Add(1)
		for i := 0; pb.Next(); i++ {
			if err := benchTurn(s, key(session, i), int64(min(i, 1)), b); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkFirstTurn runs turns that each begin a session.
func BenchmarkFirstTurn(b *testing.B) {
	s := temporary(b)
	for i := 0; b.Loop(); i++ {
		if err := benchTurn(s, key(i, 1), 0, b); err != nil {
			b.Fatal(err)
		}
	}
}
