package localtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"
)

type runArgs struct {
	Command        string `json:"command"`
	TimeoutSeconds int    `json:"timeoutSeconds"`
}

type runResult struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	// Truncated tells that the middle of the output was left out.
	Truncated bool `json:"truncated,omitempty"`
	TimedOut  bool `json:"timedOut,omitempty"`
}

func (t *Tools) runCommand() localTool {
	most := int(t.limits.CommandTime / time.Second)
	return localTool{
		Definition: Definition{
			Name: "run_command",
			Description: fmt.Sprintf("Runs a shell command (sh -c) in the user's project directory and returns its exit code and output. "+
				"The user sees the command first and may say no. It gets no input, runs for %d seconds at most, and processes that it leaves behind are ended.", most),
			Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{`+
				`"command":{"type":"string","minLength":1,"description":"The command line."},`+
				`"timeoutSeconds":{"type":"integer","minimum":1,"maximum":%d,"description":"How long it may run; %d when left out."}},`+
				`"required":["command"],"additionalProperties":false}`, max(most, 1), max(most, 1))),
		},
		prepare: func(raw []byte) (Action, error) {
			a, err := arguments[runArgs](raw)
			switch {
			case err != nil:
				return Action{}, err
			case strings.TrimSpace(a.Command) == "":
				return Action{}, errors.New("run_command needs a command")
			case len(a.Command) > t.limits.CommandBytes:
				return Action{}, fmt.Errorf("the command has more than %d bytes; write a script with write_file and run that", t.limits.CommandBytes)
			case strings.ContainsRune(a.Command, 0) || !utf8.ValidString(a.Command):
				return Action{}, errors.New("the command is not valid text")
			case a.TimeoutSeconds < 0:
				return Action{}, errors.New("timeoutSeconds must be positive")
			}
			limit := t.limits.CommandTime
			if a.TimeoutSeconds > 0 {
				limit = min(limit, time.Duration(min(a.TimeoutSeconds, most))*time.Second)
			}
			return Action{
				Ask: true, Title: "run this command, which can reach beyond the directory", Detail: a.Command,
				run: func(ctx context.Context) (any, error) { return t.run(ctx, a.Command, limit) },
			}, nil
		},
	}
}

// errTimeUp tells a command's own bound from the caller's wish to stop.
var errTimeUp = errors.New("the time is up")

func (t *Tools) run(ctx context.Context, command string, limit time.Duration) (any, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	cmd := exec.CommandContext(bounded, "sh", "-c", command)
	cmd.Dir = t.dir
	cmd.Env = environment(os.Environ())
	stdout := newClipped(t.limits.CommandOutput / 2)
	stderr := newClipped(t.limits.CommandOutput / 2)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// A process that outlives the shell may hold its output open; do not wait for it.
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)

	err := cmd.Run()
	endGroup(cmd)
	out := runResult{ExitCode: -1, Stdout: stdout.String(), Stderr: stderr.String(), Truncated: stdout.cut() || stderr.cut()}
	if cmd.ProcessState != nil {
		out.ExitCode = cmd.ProcessState.ExitCode()
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("the command was stopped by the user")
	case errors.Is(context.Cause(bounded), errTimeUp):
		out.TimedOut = true
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return nil, fmt.Errorf("the command could not be started: %w", err)
	}
	return out, nil
}

// environment leaves out our own credentials: what a command prints goes to the model.
func environment(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "OPENAI_") && !strings.HasPrefix(kv, "APTIX_") {
			out = append(out, kv)
		}
	}
	return out
}

// clipped keeps the beginning and the end of what is written to it: a build's first
// error and its summary both matter, the middle seldom does.
type clipped struct {
	half    int
	head    []byte
	tail    []byte // a ring of at most half bytes, whose oldest byte is at next
	next    int
	dropped int64
}

func newClipped(most int) *clipped { return &clipped{half: max(most/2, 1)} }

// Write never fails.
func (c *clipped) Write(p []byte) (int, error) {
	n := len(p)
	if room := c.half - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head, p = append(c.head, p[:k]...), p[k:]
	}
	if extra := len(p) - c.half; extra > 0 {
		c.dropped += int64(extra)
		p = p[extra:]
	}
	for _, b := range p {
		if len(c.tail) < c.half {
			c.tail = append(c.tail, b)
			continue
		}
		c.tail[c.next] = b
		c.next = (c.next + 1) % c.half
		c.dropped++
	}
	return n, nil
}

func (c *clipped) cut() bool { return c.dropped > 0 }

// String returns what was kept, with a note where something was left out.
func (c *clipped) String() string {
	s := string(c.head)
	if c.dropped > 0 {
		s += fmt.Sprintf("\n… %d bytes left out …\n", c.dropped)
	}
	s += string(c.tail[c.next:]) + string(c.tail[:c.next])
	return strings.ToValidUTF8(s, "\ufffd")
}
