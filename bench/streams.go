package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
	"github.com/aptixhq/aptix/bench/mock"
)

// streams is many turns open at once, each as slow as a model. The servers have the
// machine for themselves, one after the other: what is asked is how much memory they
// take and how late they are when all streams are open.
type streams struct {
	name    string
	n       int
	ramp    time.Duration // over which they are started
	tokens  int
	gap     time.Duration
	servers []server // the direct call first, Aptix last
}

func (s streams) takes() time.Duration {
	return time.Duration(len(s.servers)) * (s.ramp + time.Duration(s.tokens)*s.gap + 2*time.Second)
}

func (s streams) run(ctx context.Context, r *rig) ([]result, error) {
	if files, ok := filesAllowed(); ok && uint64(s.n) > mostStreams(files) {
		return nil, fmt.Errorf("a server needs two files for each of %d streams, and a process may have %d (ulimit -Hn): at most %d streams", s.n, files, mostStreams(files))
	}
	var out []result
	for _, server := range s.servers {
		got, err := s.one(ctx, r, server)
		if err != nil {
			return nil, err
		}
		out = append(out, got)
	}
	base, ours := of(out, direct()), &out[len(out)-1]
	for i := range out[1:] {
		out[i+1].added = out[i+1].p50 - base.p50
	}
	if s.n >= 9_000 { // 500 MB for 10,000, of which not every machine lets a process have the files
		ours.goals = append(ours.goals, goal{what: "memory", got: megabytes(ours.peak), want: float64(s.n) / 20, unit: " MB"})
	}
	if s.gap <= 20*time.Millisecond {
		ours.goals = append(ours.goals, goal{what: "p99 added to the direct call's", got: float64((ours.p99 - base.p99).Milliseconds()), want: 50, unit: " ms"})
	}
	return out, nil
}

// mostStreams is how many streams a server can have open with so many files: the client's
// connection and the model's for each, and some for the server itself.
func mostStreams(files uint64) uint64 { return max(files, 200)/2 - 100 }

// quantiles says the p50 and the p99.
func quantiles(ds []time.Duration) string {
	return fmt.Sprintf("%d and %d ms", drive.Quantile(ds, 0.5).Milliseconds(), drive.Quantile(ds, 0.99).Milliseconds())
}

// one measures one server. Its result has the delays of the text where others have the
// times of turns.
func (s streams) one(ctx context.Context, r *rig, server server) (result, error) {
	f, err := r.open(ctx, model{s.tokens, s.gap}, false, server)
	if err != nil {
		return result{}, err
	}
	defer f.close()
	subject := f.subjects[0]
	var open usage // written before Streams returns
	self := ownTime()
	got := subject.driver.Streams(ctx, s.n, s.ramp, drive.Pace{Tokens: s.tokens, TokenBytes: mock.TokenBytes, Gap: s.gap, Began: mock.Began}, func() { open = subject.usage() })
	if got.Err != nil {
		return result{}, subject.blame(fmt.Errorf("%d of %d streams failed, %d tokens lost: %w", got.Failed, s.n, got.Lost, got.Err))
	}
	end, selfEnd := subject.usage(), ownTime()
	stats, err := f.stats(ctx)
	if err != nil {
		return result{}, err
	}
	n := time.Duration(s.n)
	out := result{
		scenario: s.name, server: server.name, p50: drive.Quantile(got.Delays, 0.5), p99: drive.Quantile(got.Delays, 0.99),
		cpu: (end.cpu - subject.idle.cpu) / n, driver: (selfEnd - self) / n, idle: subject.idle.rss, peak: end.peak,
	}
	kilobytes := float64(open.own()-subject.idle.own()) / 1024 / float64(s.n)
	out.notes = append(out.notes, fmt.Sprintf("p50 and p99 are the delay of text; %d open at once", stats.MaxOpen),
		fmt.Sprintf("first text after %s, end late by %s", quantiles(got.Firsts), quantiles(got.Ends)))
	if server.name == replaying().name && open.rss > 0 {
		out.goals = append(out.goals, goal{what: "memory of a stream", got: kilobytes, want: 60, unit: " KB"})
	} else if open.rss > 0 {
		out.notes = append(out.notes, fmt.Sprintf("%.0f KB a stream", kilobytes))
	}
	return out, nil
}
