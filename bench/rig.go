package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
)

// options are the flags.
type options struct {
	time  time.Duration
	only  string
	dir   string
	aptix string
}

// rig runs scenarios.
type rig struct {
	time  time.Duration // the closed loop, for each server
	dir   string        // everything that is written
	self  string        // this program, which also plays the model and the floors
	aptix string        // the binary that is measured
	used  time.Duration // processor time of the processes that have ended
}

// pause is for what a server does before it is measured: after its start, and with its
// first turns.
func (r *rig) pause() time.Duration { return min(300*time.Millisecond, r.time) }

// run measures and prints.
func run(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	var scenarios []scenario
	allowed := 25 * time.Second // also to build
	for name := range strings.SplitSeq(o.only, ",") {
		s, err := parse(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		scenarios = append(scenarios, s)
		allowed += s.takes(o.time) * 5 / 4
	}
	ctx, stop := context.WithTimeoutCause(ctx, allowed, fmt.Errorf("not done after %s, a quarter more than it should take: the machine does too much else", allowed.Round(time.Second)))
	defer stop()

	r, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	sync, err := syncTime(r.dir)
	if err != nil {
		return err
	}
	start, own := time.Now(), ownTime()
	busy, _ := machineTime()
	var results []result
	for _, s := range scenarios {
		say(stderr, "%s, about %s", s.name, s.takes(o.time).Round(time.Second))
		var got []result
		if got, err = s.run(ctx, r); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			err = fmt.Errorf("%s: %w", s.name, err)
			break // what is there is shown
		}
		results = append(results, got...)
	}
	if len(results) == 0 {
		return err
	}
	elapsed := time.Since(start)
	say(stdout, "%s, %s/%s, %d processors, %s; a synced write of 4 KiB takes %s ms (p50); %s%s.\n", start.UTC().Format(time.DateOnly),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), milliseconds(sync), elapsed.Round(time.Second), others(busy, ownTime()-own+r.used, elapsed))
	return errors.Join(err, table(stdout, results))
}

// others says how much of the machine other programs used, since that is the noise in
// the figures.
func others(before, ours, elapsed time.Duration) string {
	after, ok := machineTime()
	if !ok {
		return ""
	}
	share := float64(after-before-ours) / float64(elapsed) / float64(runtime.NumCPU())
	return fmt.Sprintf("; others used %.0f %% of the machine", 100*max(0, share))
}

// newRig makes a folder and builds what is measured.
func newRig(ctx context.Context, o options) (_ *rig, err error) {
	r := &rig{time: o.time, aptix: o.aptix}
	if r.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp(o.dir, "aptix-bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.dir))
		}
	}()
	if r.aptix != "" {
		r.aptix, err = filepath.Abs(r.aptix)
		return r, err
	}
	r.aptix = filepath.Join(r.dir, "aptix.exe") // Windows needs the ending, nobody minds
	build := exec.CommandContext(ctx, "go", "build", "-o", r.aptix, "github.com/aptixhq/aptix/cmd/aptix")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build aptix: %w\n%s", err, output)
	}
	return r, nil
}

// role returns this program as something else: the model or a floor.
func (r *rig) role(name string, args ...string) *exec.Cmd {
	return exec.Command(r.self, append([]string{name}, args...)...)
}

// ownTime is the processor time that this program has used.
func ownTime() time.Duration {
	u, _ := usageOf(os.Getpid())
	return u.cpu
}

// syncTime measures the disk: a durable commit cannot take less.
func syncTime(dir string) (_ time.Duration, err error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var took []time.Duration
	for range 50 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	return drive.Quantile(took, 0.5), nil
}

// flags reads the command line.
func flags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.DurationVar(&o.time, "d", 2*time.Second, "how long the closed loop runs, for each server")
	f.StringVar(&o.only, "only", standard, "the scenarios: idle, cN, toolN, growth, rN, fN, fsync")
	f.StringVar(&o.dir, "dir", "", "where the data goes (default: the folder for temporary files)")
	f.StringVar(&o.aptix, "aptix", "", "an aptix binary to measure (default: one built from the source)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q", f.Args())
	}
	if o.time < 100*time.Millisecond || o.time > time.Hour {
		return o, fmt.Errorf("-d %s: want 100ms to 1h", o.time)
	}
	return o, nil
}

func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
