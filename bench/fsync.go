package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// syncs counts how often a server waits for the disk in a turn. It needs strace, and
// says so where there is none.
type syncs struct{ turns int }

func (c syncs) run(ctx context.Context, r *rig) ([]result, error) {
	servers := []server{single(), replaying()}
	out := make([]result, len(servers))
	for i, s := range servers {
		out[i] = result{scenario: "fsync", server: s.name, notes: []string{"n/a: there is no strace"}}
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return out, nil
	}
	for i := range servers {
		servers[i].command = traced(strace, servers[i].command)
	}
	f, err := r.open(ctx, model{tokens: answerTokens}, false, servers...)
	if err != nil {
		return nil, err
	}
	defer f.close()
	for i, s := range f.subjects {
		counts, err := c.count(ctx, s)
		if err != nil {
			return nil, s.blame(err)
		}
		sum := 0
		for _, n := range counts {
			sum += n
		}
		slices.Sort(counts)
		half := counts[len(counts)/2]
		out[i].notes = []string{fmt.Sprintf("syncs in a turn: %d (p50), %.2f (mean, with checkpoints)", half, float64(sum)/float64(len(counts)))}
		if s.name == replaying().name {
			out[i].goals = []goal{{what: "syncs in a turn", got: float64(half), want: 2}}
		}
	}
	return out, nil
}

// traceFile is where strace writes, in a server's folder.
const traceFile = "trace"

// traced starts a server under strace.
func traced(strace string, command func(r *rig, dir, model string) (*exec.Cmd, error)) func(r *rig, dir, model string) (*exec.Cmd, error) {
	return func(r *rig, dir, model string) (*exec.Cmd, error) {
		cmd, err := command(r, dir, model)
		if err != nil {
			return nil, err
		}
		// With -D the server is our own child, and ends with us.
		args := []string{"-D", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", filepath.Join(dir, traceFile)}
		under := exec.Command(strace, append(args, cmd.Args...)...)
		under.Env = cmd.Env
		return under, nil
	}
}

// count returns how many syncs each turn of a session had, after the first ten.
func (c syncs) count(ctx context.Context, s *subject) ([]int, error) {
	session := s.driver.NewSession()
	var counts []int
	for turn, before := 0, 0; turn < 10+c.turns; turn++ {
		if _, err := session.Turn(ctx); err != nil {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond) // what follows an answer belongs to its turn
		trace, err := os.ReadFile(filepath.Join(s.process.cmd.Dir, traceFile))
		if err != nil {
			return nil, err
		}
		// A call that another thread interrupts in the trace is "resumed" without the
		// parenthesis.
		now := bytes.Count(trace, []byte("fsync(")) + bytes.Count(trace, []byte("fdatasync("))
		if turn >= 10 {
			counts = append(counts, now-before)
		}
		before = now
	}
	return counts, nil
}
