package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// startTime bounds how long a server may take until it is ready.
const startTime = 30 * time.Second

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	log   string // the file with its output
	url   string
	ended chan struct{} // closed when it has
}

// ready is how each server says where it listens.
var ready = regexp.MustCompile(`ready at (http://\S+)`)

// start starts a server, with its output in a file of the folder, and waits until it is
// ready. Whoever starts it ends it, with stop.
func start(ctx context.Context, cmd *exec.Cmd, dir string) (_ *process, err error) {
	p := &process{cmd: cmd, log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		_ = cmd.Wait()
		close(p.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		output, err := os.ReadFile(p.log)
		if err != nil {
			p.stop()
			return nil, err
		}
		if m := ready.FindSubmatch(output); m != nil {
			p.url = string(m[1])
			return p, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.ended:
			return nil, fmt.Errorf("%s ended before it was ready:\n%s", filepath.Base(cmd.Path), output)
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("%s is not ready: %w\n%s", filepath.Base(cmd.Path), ctx.Err(), output)
		}
	}
}

// stop ends the process and returns when it has ended. Its data goes with it, so it is
// not asked first.
func (p *process) stop() {
	kill(p.cmd)
	<-p.ended
}

// pid is the process's id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// usage is what a process has used.
type usage struct {
	cpu time.Duration
	// rss is its memory now, peak the most it ever was, files what of rss are pages of
	// files; in bytes.
	rss, peak, files int64
}

// own is the memory that a process has written to. The rest is its program, of which a
// first turn maps some, and nothing that there would be more of with more turns.
func (u usage) own() int64 { return u.rss - u.files }
