package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
	"github.com/aptixhq/aptix/bench/mock"
)

// rounds is in how many pieces the time of a server is cut. The servers take turns, so
// that whatever else the machine does hits all of them alike.
const rounds = 8

// answerTokens is how long an answer is where its pace does not matter.
const answerTokens = 20

// loop is the closed loop: so many clients send turn after turn.
type loop struct {
	name    string
	clients int
	tool    bool
	servers []server // Aptix last
}

func (l loop) takes(d time.Duration) time.Duration {
	return time.Second + time.Duration(len(l.servers))*(d+d/rounds+500*time.Millisecond)
}

// share is what one subject did over all rounds.
type share struct {
	turns       []time.Duration
	elapsed     time.Duration
	cpu, driver time.Duration
}

func (l loop) run(ctx context.Context, r *rig) ([]result, error) {
	f, err := r.open(ctx, model{tokens: answerTokens}, l.tool, l.servers...)
	if err != nil {
		return nil, err
	}
	defer f.close()
	shares := make([]share, len(f.subjects))
	for round := range rounds + 1 {
		for i, s := range f.subjects {
			got, err := l.round(ctx, f, s, r.time/rounds)
			if err != nil {
				return nil, s.blame(err)
			}
			if round == 0 {
				continue // the first warms up
			}
			sum := &shares[i]
			sum.turns = append(sum.turns, got.turns...)
			sum.elapsed += got.elapsed
			sum.cpu += got.cpu
			sum.driver += got.driver
		}
	}
	out := make([]result, len(f.subjects))
	for i, s := range f.subjects {
		sum := shares[i]
		n := time.Duration(len(sum.turns))
		out[i] = result{
			scenario: l.name, server: s.name,
			p50: drive.Quantile(sum.turns, 0.5), p99: drive.Quantile(sum.turns, 0.99),
			rate: float64(n) / sum.elapsed.Seconds(), cpu: sum.cpu / n, driver: sum.driver / n,
			idle: s.idle.rss, peak: s.usage().peak,
		}
	}
	l.compare(out)
	return out, nil
}

// round runs the loop on one server, and checks that the model was asked as often as
// it has to be.
func (l loop) round(ctx context.Context, f *field, s *subject, d time.Duration) (share, error) {
	asked, err := f.stats(ctx)
	if err != nil {
		return share{}, err
	}
	before, self := s.usage(), ownTime()
	load, err := s.driver.Closed(ctx, l.clients, d)
	if err != nil {
		return share{}, err
	}
	after, selfAfter := s.usage(), ownTime()
	now, err := f.stats(ctx)
	if err != nil {
		return share{}, err
	}
	calls := 1
	if l.tool {
		calls = 2
	}
	if got, want := now.Requests-asked.Requests, int64(calls*len(load.Turns)); got != want {
		return share{}, fmt.Errorf("%d turns asked the model %d times, want %d", len(load.Turns), got, want)
	}
	return share{load.Turns, load.Elapsed, after.cpu - before.cpu, selfAfter - self}, nil
}

// compare holds Aptix, the last of the results, to the floors.
func (l loop) compare(results []result) {
	base, one, grouped := of(results, direct()), of(results, single()), of(results, group())
	for i := range results {
		r := &results[i]
		if base.p50 > 0 && r.server != base.server {
			r.added = r.p50 - base.p50
		}
	}
	ours := &results[len(results)-1]
	if grouped.rate > 0 {
		ours.notes = append(ours.notes, fmt.Sprintf("to the group floor: p50 %.3g×, CPU %.3g×, turns/s %.3g×", ratio(ours.p50, grouped.p50), ratio(ours.cpu, grouped.cpu), ours.rate/grouped.rate))
	}
	switch {
	case l.tool:
		ours.goals = append(ours.goals, goal{what: "p50 to the SQLite floor's", got: ratio(ours.p50, one.p50), want: 1.5, unit: "×"})
	case l.clients == 1:
		ours.goals = append(ours.goals,
			goal{what: "added p50 to the SQLite floor's", got: ratio(ours.added, one.p50-base.p50), want: 1.15, unit: "×"},
			goal{what: "CPU to the SQLite floor's", got: ratio(ours.cpu, one.cpu), want: 1.2, unit: "×"},
			goal{what: "idle", got: megabytes(ours.idle), want: 30, unit: " MB"})
	case l.clients >= 64 && grouped.rate > 0:
		ours.goals = append(ours.goals, goal{what: "turns/s to the group floor's", got: ours.rate / grouped.rate, want: 0.6, unit: "×", atLeast: true})
	}
}

// stats returns what the model has seen.
func (f *field) stats(ctx context.Context) (mock.Stats, error) {
	var out mock.Stats
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.model.url+"/stats", nil)
	if err != nil {
		return out, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	return out, json.NewDecoder(res.Body).Decode(&out)
}
