package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The whole way: aptix is built, everything starts, and every kind of scenario runs for
// a moment. Many slow streams at a time, of which no text may be lost, are row L-2 of
// docs/limits.md.
func TestScenarios(t *testing.T) {
	dir := t.TempDir()
	r, err := newRig(t.Context(), options{time: 100 * time.Millisecond, dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("closed loop", func(t *testing.T) {
		l := loop{name: "c1", clients: 1, servers: []server{direct(), proxy(), single(), group(), replaying()}}
		got := results(t, r, l.run)
		sane(t, got, "direct call", "reverse proxy", "SQLite floor", "SQLite floor, group commit", "Aptix")
		if fast, slow := of(got, direct()), of(got, replaying()); slow.p50 <= fast.p50 || slow.added != slow.p50-fast.p50 || len(slow.goals) != 3 {
			t.Errorf("the direct call is no faster than Aptix, or they are not compared: %+v, %+v", fast, slow)
		}
	})
	t.Run("tool", func(t *testing.T) {
		l := loop{name: "tool4", clients: 4, tool: true, servers: []server{single(), replaying()}}
		got := results(t, r, l.run)
		sane(t, got, "SQLite floor", "Aptix")
		if goals := got[1].goals; len(goals) != 1 || goals[0].got <= 0 {
			t.Errorf("goals %v", goals)
		}
	})
	t.Run("growth", func(t *testing.T) {
		got := results(t, r, growth{sessions: 1, marks: []int{1, 3, 6}}.run)
		sane(t, got, "direct call", "SQLite floor", "Aptix", "Aptix, chained")
		for _, g := range append(got[2].goals, got[3].goals...) {
			if g.got <= 0 || !strings.HasPrefix(g.what, "turn 6 to turn 3") {
				t.Errorf("goal %v", g)
			}
		}
	})
	t.Run("streams", func(t *testing.T) {
		s := streams{name: "f20", n: 20, ramp: 50 * time.Millisecond, tokens: 10, gap: 20 * time.Millisecond, servers: []server{direct(), replaying()}}
		got := results(t, r, s.run)
		sane(t, got, "direct call", "Aptix")
		for _, r := range got {
			var open int
			_, words, _ := strings.Cut(r.notes[0], "; ")
			if _, err := fmt.Sscanf(words, "%d open at once", &open); err != nil || open < 2 || open > 20 {
				t.Errorf("%s: %q, want that many of 20 streams were open", r.server, r.notes)
			}
			var late [4]int
			if _, err := fmt.Sscanf(r.notes[1], "first text after %d and %d ms, end late by %d and %d ms", &late[0], &late[1], &late[2], &late[3]); err != nil || late[0] > late[1] || late[2] > late[3] {
				t.Errorf("%s: %q, want how late turns began and ended", r.server, r.notes)
			}
		}
	})
	t.Run("idle", func(t *testing.T) {
		got := results(t, r, rest{wait: 100 * time.Millisecond}.run)
		if len(got) != 2 || got[0].server != "SQLite floor" || got[1].server != "Aptix" {
			t.Fatalf("got %+v", got)
		}
		goals := got[1].goals
		if len(goals) != 1 || goals[0].want != 30 || goals[0].got != megabytes(got[1].idle) {
			t.Errorf("goals %v", goals)
		}
		for _, r := range got {
			if runtime.GOOS == "linux" && (r.idle < 1<<20 || r.peak < r.idle) {
				t.Errorf("%s: %d bytes idle, %d at most", r.server, r.idle, r.peak)
			}
		}
	})
	t.Run("fsync", func(t *testing.T) {
		if _, err := exec.LookPath("strace"); err != nil {
			t.Skip("there is no strace")
		}
		got := results(t, r, syncs{turns: 5}.run)
		if !strings.HasPrefix(got[0].notes[0], "syncs in a turn: 1 (p50)") {
			t.Errorf("the SQLite floor commits once: %q", got[0].notes)
		}
		if goals := got[1].goals; len(goals) != 1 || goals[0].got < 1 {
			t.Errorf("Aptix waits for the disk at least once: %v", goals)
		}
	})
	left, err := filepath.Glob(filepath.Join(r.dir, "server*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

func results(t *testing.T, r *rig, run func(context.Context, *rig) ([]result, error)) []result {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	got, err := run(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sane checks that these servers were measured, with figures that a turn can have.
func sane(t *testing.T, got []result, names ...string) {
	t.Helper()
	var have []string
	for _, r := range got {
		have = append(have, r.server)
		if r.p50 <= 0 || r.p99 < r.p50 || r.p99 > time.Minute {
			t.Errorf("%s: p50 %s, p99 %s", r.server, r.p50, r.p99)
		}
		if runtime.GOOS == "linux" && (r.idle < 1<<20 || r.peak < r.idle) {
			t.Errorf("%s: %d bytes idle, %d at most", r.server, r.idle, r.peak)
		}
	}
	if diff := cmp.Diff(have, names); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

// Whatever ends a run, nothing of it stays.
func TestRun_LeavesNothing(t *testing.T) {
	broken, err := os.Executable() // TestMain ends it at once
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"c1": "ended before it was ready", "c0": "no scenario"} {
		dir := t.TempDir()
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), options{time: 100 * time.Millisecond, only: name, dir: dir, aptix: broken}, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v stays", name, left)
		}
	}
}

func TestRun_EndsWhenItIsToldTo(t *testing.T) {
	r, err := newRig(t.Context(), options{time: time.Hour, dir: t.TempDir(), aptix: "none"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	l := loop{name: "c1", clients: 1, servers: []server{direct()}}
	if _, err := l.run(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestParse(t *testing.T) {
	for _, name := range strings.Split(standard+",c16,tool64,r10000,f1000", ",") {
		s, err := parse(name)
		if err != nil || s.name != name || s.run == nil || s.takes(time.Second) <= 0 {
			t.Errorf("parse(%q) = %+v, %v", name, s, err)
		}
	}
	for _, name := range []string{"", "c", "c0", "c-1", "x1", "r100000", "growth2"} {
		if _, err := parse(name); err == nil {
			t.Errorf("parse(%q) has no error", name)
		}
	}
}

// More streams than files end with an error before anything is started, not with a
// server that cannot reach its model.
func TestStreams_NeedFiles(t *testing.T) {
	files, ok := filesAllowed()
	if !ok || files < 1000 || files > 1<<31 {
		t.Skipf("%d files are allowed here, known: %t", files, ok)
	}
	s := streams{name: "r", n: int(files/2) + 1, servers: []server{direct()}}
	_, err := s.run(t.Context(), nil)
	if want := fmt.Sprintf("at most %d streams", files/2-100); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// Streams are all open at once, however many they are: the last begins before the first
// ends.
func TestParse_StreamsAreOpenTogether(t *testing.T) {
	for name, want := range map[string]time.Duration{"r10": 48 * time.Second, "r1000": 48 * time.Second, "r9500": 252 * time.Second} {
		s, err := parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.takes(0); got != want {
			t.Errorf("%s takes %s, want %s", name, got, want)
		}
	}
}

// The default run is one that people wait for.
func TestStandard_TakesLessThanThreeMinutes(t *testing.T) {
	var sum time.Duration
	for name := range strings.SplitSeq(standard, ",") {
		s, err := parse(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += s.takes(2 * time.Second)
	}
	if sum > 3*time.Minute {
		t.Errorf("it takes %s", sum)
	}
}

func TestLoop_ComparesWithTheFloors(t *testing.T) {
	got := []result{
		{server: direct().name, p50: 1 * time.Millisecond},
		{server: single().name, p50: 3 * time.Millisecond, cpu: 10 * time.Millisecond},
		{server: group().name, p50: 2 * time.Millisecond, cpu: 22 * time.Millisecond, rate: 200},
		{server: replaying().name, p50: 4 * time.Millisecond, cpu: 11 * time.Millisecond, rate: 150, idle: 20 << 20},
	}
	loop{clients: 1}.compare(got)
	loop{clients: 64}.compare(got)
	loop{clients: 1, tool: true}.compare(got)
	var said []string
	for _, g := range got[3].goals {
		said = append(said, g.String())
	}
	want := []string{
		"added p50 to the SQLite floor's 1.5× (≤ 1.15×, **missed**)",
		"CPU to the SQLite floor's 1.1× (≤ 1.2×, met)",
		"idle 20 MB (≤ 30 MB, met)",
		"turns/s to the group floor's 0.75× (≥ 0.6×, met)",
		"p50 to the SQLite floor's 1.33× (≤ 1.5×, met)",
	}
	if diff := cmp.Diff(said, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if got, want := got[3].notes[0], "to the group floor: p50 2×, CPU 0.5×, turns/s 0.75×"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got[3].added != 3*time.Millisecond || got[0].added != 0 {
		t.Errorf("added %s and %s, want 3ms and nothing to the direct call", got[3].added, got[0].added)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	err := table(&b, []result{
		{scenario: "c1", server: "x", p50: 1500 * time.Microsecond, p99: 2 * time.Millisecond, added: time.Millisecond, rate: 600, cpu: time.Millisecond,
			driver: 100 * time.Microsecond, idle: 10 << 20, peak: 20 << 20, notes: []string{"a", "b"}, goals: []goal{{"g", 1, 2, "×", false}, {"h", 1, 2, "", true}}},
		{scenario: "c1", server: "without /proc", p50: time.Millisecond, p99: time.Millisecond, goals: []goal{{"g", 0, 2, "×", false}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `| Scenario | Server | p50 ms | p99 ms | added p50 ms | turns/s | CPU ms/turn | driver's | RSS MB idle / peak | Measured | Goals |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --- | --- |
| c1 | x | 1.50 | 2.00 | 1.00 | 600 | 1.00 | 0.10 | 10 / 20 | a; b | g 1× (≤ 2×, met); h 1 (≥ 2, **missed**) |
| c1 | without /proc | 1.00 | 1.00 | – | – | – | – | – / – |  | g n/a (≤ 2×) |
`
	if diff := cmp.Diff(b.String(), want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}
