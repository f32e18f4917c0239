package main

import (
	"context"
	"fmt"
	"time"
)

// rest is a server that nobody asks for anything: how much memory it holds. What its
// start needed is not counted, so it is given some time.
type rest struct{ wait time.Duration }

func (s rest) run(ctx context.Context, r *rig) ([]result, error) {
	servers := []server{single(), replaying()}
	f, err := r.open(ctx, model{}, false, servers...)
	if err != nil {
		return nil, err
	}
	defer f.close()
	before := make([]usage, len(servers))
	for i, subject := range f.subjects {
		before[i] = subject.usage()
	}
	select {
	case <-time.After(s.wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var out []result
	for i, subject := range f.subjects {
		u := subject.usage()
		busy := u.cpu - before[i].cpu
		got := result{scenario: "idle", server: subject.name, idle: u.rss, peak: u.peak,
			notes: []string{fmt.Sprintf("after %s, in which it worked for %s; %.0f MB are pages of files, the program's above all", s.wait, busy, megabytes(u.files))}}
		if subject.name == replaying().name {
			got.goals = []goal{{what: "idle memory", got: megabytes(u.rss), want: 30, unit: " MB"}}
		}
		out = append(out, got)
	}
	return out, nil
}
