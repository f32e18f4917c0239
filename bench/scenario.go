package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// scenario is one way to use all servers, in turn.
type scenario struct {
	name string
	// takes is about how long it takes when the closed loop runs for d on each server.
	takes func(d time.Duration) time.Duration
	run   func(ctx context.Context, r *rig) ([]result, error)
}

// standard is what runs when nothing else is asked for.
const standard = "idle,c1,c16,c64,tool1,growth,r1000,fsync"

// numbered are the scenarios that exist in sizes.
var numbered = regexp.MustCompile(`^(c|tool|r|f)([1-9][0-9]{0,4})$`)

// parse returns the scenario of that name.
func parse(name string) (scenario, error) {
	switch name {
	case "idle":
		return scenario{name, fixed(17 * time.Second), rest{wait: 15 * time.Second}.run}, nil
	case "growth":
		return scenario{name, fixed(15 * time.Second), growth{sessions: 2, marks: []int{1, 10, 50, 100, 200, 500}}.run}, nil
	case "fsync":
		return scenario{name, fixed(5 * time.Second), syncs{turns: 100}.run}, nil
	}
	m := numbered.FindStringSubmatch(name)
	if m == nil {
		return scenario{}, fmt.Errorf("no scenario %q: want idle, cN, toolN, growth, rN, fN or fsync, with N up to 99999", name)
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return scenario{}, err
	}
	waiting := []server{direct(), single(), replaying()}
	switch m[1] {
	case "c":
		l := loop{name: name, clients: n, servers: []server{direct(), proxy(), single(), group(), replaying()}}
		return scenario{name, l.takes, l.run}, nil
	case "tool":
		l := loop{name: name, clients: n, tool: true, servers: []server{single(), group(), replaying()}}
		return scenario{name, l.takes, l.run}, nil
	case "r":
		// A thousand in 4 s; more of them take longer to begin, and go on until all have.
		ramp := max(4*time.Second, time.Duration(n)*4*time.Millisecond)
		s := streams{name: name, n: n, ramp: ramp, tokens: 50, gap: (ramp + 6*time.Second) / 50, servers: waiting}
		return scenario{name, fixed(s.takes()), s.run}, nil
	default:
		s := streams{name: name, n: n, ramp: 4 * time.Second, tokens: 250, gap: 20 * time.Millisecond, servers: waiting}
		return scenario{name, fixed(s.takes()), s.run}, nil
	}
}

func fixed(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

// result is what one server did in one scenario. Members that were not measured are
// zero.
type result struct {
	scenario, server string
	p50, p99         time.Duration
	added            time.Duration // to the p50 of the direct call
	rate             float64       // turns a second
	cpu, driver      time.Duration // per turn: of the server, and of this program
	idle, peak       int64         // bytes of memory
	notes            []string
	goals            []goal
}

// goal is a measure of the project, and what was measured.
type goal struct {
	what      string
	got, want float64
	unit      string
	atLeast   bool
}

// met reports whether the goal was reached.
func (g goal) met() bool {
	if g.atLeast {
		return g.got >= g.want
	}
	return g.got <= g.want
}

// of returns the result of a server; its zero value when there is none.
func of(results []result, s server) result {
	for _, r := range results {
		if r.server == s.name {
			return r
		}
	}
	return result{}
}

// ratio is a/b, 0 when there is no b.
func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
