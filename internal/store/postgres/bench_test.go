package postgres

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
	n.Lease = store.Lease{Owner: "a", For: lease}
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
		a.Key, a.Epoch = k, 1
		if err := s.AppendSteps(b.Context(), a); err != nil {
			return err
		}
	}
	return nil
}

func benchKey(session, turn any) agent.TurnKey {
	return key(agent.SessionID(fmt.Sprint("s", session)), agent.TurnID(fmt.Sprint("t", turn)))
}

// BenchmarkTurn runs turns in one session, of which so many are there already, in the
// ways in which statements may reach the server. Nothing is synced.
func BenchmarkTurn(b *testing.B) {
	for _, mode := range []string{"cache_describe", "exec", "cache_statement"} {
		for _, before := range []int{0, 1000} {
			b.Run(fmt.Sprintf("%s/before=%d", mode, before), func(b *testing.B) {
				s := another(b, cluster.Database(b)+" default_query_exec_mode="+mode)
				for i := range before {
					if err := benchTurn(s, benchKey(1, i), int64(min(i, 1)), b); err != nil {
						b.Fatal(err)
					}
				}
				i := before
				for b.Loop() {
					if err := benchTurn(s, benchKey(1, i), int64(min(i, 1)), b); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkTurns runs turns of many sessions at a time. It holds row L-12 of docs/limits.md.
func BenchmarkTurns(b *testing.B) {
	s := temporary(b)
	var sessions atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		session := sessions.Add(1)
		for i := 0; pb.Next(); i++ {
			if err := benchTurn(s, benchKey(session, i), int64(min(i, 1)), b); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
