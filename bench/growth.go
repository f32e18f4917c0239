package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
)

// growth is long sessions: the last mark tells whether turns got slower since the
// second one. The first is a session's beginning, which has more to do.
type growth struct {
	sessions int
	marks    []int // the turns that are looked at
}

// span is how many turns to either side of a mark count with it.
func span(mark int) int { return min(8, mark/5) }

// run sends the first turn to a session of each server, then the second, and so on, so
// that whatever else the machine does hits all of them alike.
func (g growth) run(ctx context.Context, r *rig) ([]result, error) {
	f, err := r.open(ctx, model{tokens: answerTokens}, false, direct(), single(), replaying(), chaining())
	if err != nil {
		return nil, err
	}
	defer f.close()
	for _, s := range f.subjects { // warms up
		if _, err := s.driver.Closed(ctx, 1, r.pause()); err != nil {
			return nil, s.blame(err)
		}
	}
	took := make([]map[int][]time.Duration, len(f.subjects)) // by mark
	for i := range took {
		took[i] = map[int][]time.Duration{}
	}
	early, last := g.marks[1], g.marks[len(g.marks)-1]
	for range g.sessions {
		sessions := make([]*drive.Session, len(f.subjects))
		for i, s := range f.subjects {
			sessions[i] = s.driver.NewSession()
		}
		for turn := 1; turn <= last+span(last); turn++ {
			for i, s := range sessions {
				d, err := s.Turn(ctx)
				if err != nil {
					return nil, f.subjects[i].blame(fmt.Errorf("turn %d: %w", turn, err))
				}
				for _, m := range g.marks {
					if turn >= m-span(m) && turn <= m+span(m) {
						took[i][m] = append(took[i][m], d)
					}
				}
			}
		}
	}
	out := make([]result, len(f.subjects))
	for i, s := range f.subjects {
		var at, ms []string
		for _, m := range g.marks {
			at = append(at, fmt.Sprint(m))
			ms = append(ms, milliseconds(drive.Quantile(took[i][m], 0.5)))
		}
		out[i] = result{
			scenario: "growth", server: s.name, p50: drive.Quantile(took[i][last], 0.5), p99: drive.Quantile(took[i][last], 0.99), peak: s.usage().peak, idle: s.idle.rss,
			notes: []string{fmt.Sprintf("turn %s: %s ms", strings.Join(at, "/"), strings.Join(ms, "/"))},
		}
		grown := ratio(drive.Quantile(took[i][last], 0.5), drive.Quantile(took[i][early], 0.5))
		own := ratio(drive.Quantile(took[0][last], 0.5), drive.Quantile(took[0][early], 0.5)) // the direct call's
		what := fmt.Sprintf("turn %d to turn %d", last, early)
		switch s.name {
		case chaining().name:
			out[i].goals = []goal{{what: what, got: grown, want: 1.2, unit: "×"}}
		case replaying().name:
			out[i].goals = []goal{{what: what + ", to the direct call's", got: grown / own, want: 1.2, unit: "×"}}
		}
	}
	return out, nil
}
