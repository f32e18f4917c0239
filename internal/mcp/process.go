package mcp

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// How long a child has to end after its input was closed, and after it was asked to, and
// how long a write to one that does not read may take.
const (
	leaveTime = 2 * time.Second
	termTime  = 2 * time.Second
	writeTime = 10 * time.Second
	// afterTime is how long what a child has said is read after it has ended.
	afterTime = time.Second
)

// baseEnv are the variables that a child has in any case, as far as we have them: without
// them programs do not find each other, nor a place for their files.
var baseEnv = []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "USERPROFILE", "TEMP"}

// process is a server that runs as a child, in a group of its own.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File // what it reads
	stdout *os.File // what it says
	ended  chan struct{}
	err    error // how it ended; set before ended is closed
}

// startProcess starts the command of a server.
func startProcess(c ServerConfig, log *slog.Logger) (*process, error) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), ourOut.Close())
	}
	p := &process{cmd: exec.Command(c.Command, c.Args...), stdin: ourOut, stdout: ourIn, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = c.Dir, environment(c.Env, os.LookupEnv)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, &lineLog{log: log, conceal: c.concealedForLog}
	p.cmd.WaitDelay = afterTime // for whoever the child left its stderr to
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error, 1)
	go p.run(started)
	err = <-started
	_, _ = theirIn.Close(), theirOut.Close() // the child has them
	if err != nil {
		_, _ = p.stdin.Close(), p.stdout.Close()
		return nil, fmt.Errorf("start %s: %w", c.Where(), err)
	}
	log.Info("MCP server started", "pid", p.cmd.Process.Pid, "command", c.Where())
	return p, nil
}

// environment returns the variables that a child has.
func environment(names []string, lookup func(string) (string, bool)) []string {
	out := []string{} // nil would be all of them
	for _, name := range append(append([]string{}, baseEnv...), names...) {
		if value, ok := lookup(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// run starts the child and stays with it until it has ended.
func (p *process) run(started chan<- error) {
	// Where the kernel ends a child with its parent, the parent is this very thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = collect(p.cmd)
	// Whoever got away from the group may hold the pipe open.
	_ = p.stdout.SetReadDeadline(time.Now().Add(afterTime))
	close(p.ended)
}

// Read reads what the child says.
func (p *process) Read(b []byte) (int, error) { return p.stdout.Read(b) }

// Write writes to the child, which has some time to read it.
func (p *process) Write(b []byte) (int, error) {
	if err := p.stdin.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return p.stdin.Write(b)
}

// Close ends the child: it is left alone, then asked, then made to.
func (p *process) Close() error {
	_ = p.stdin.Close()
	for _, step := range []struct {
		wait time.Duration
		then syscall.Signal
	}{{leaveTime, syscall.SIGTERM}, {termTime, syscall.SIGKILL}} {
		timer := time.NewTimer(step.wait)
		select {
		case <-p.ended:
			timer.Stop()
			return p.stdout.Close()
		case <-timer.C:
			killGroup(p.cmd.Process, step.then)
		}
	}
	<-p.ended
	return p.stdout.Close()
}

// half gives the SDK one side of a child; the other side's Close ends it.
type half struct{ io.ReadWriter }

func (half) Close() error { return nil }
