package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aptixhq/aptix/bench/drive"
	"github.com/aptixhq/aptix/bench/mock"
)

// server is something to measure: how it is started, and how it is spoken to.
type server struct {
	name     string
	protocol drive.Protocol
	// tool is one of its own tools, which runs without arguments.
	tool string
	// command starts it, with its data in a folder that is its own and the model's
	// address without /v1. It listens on a port of 127.0.0.1 that is free, and says
	// "ready at http://…" when it does. nil is the model itself.
	command func(r *rig, dir, model string) (*exec.Cmd, error)
}

// The servers, by what they add to a call of the model.
func direct() server { return server{name: "direct call", protocol: drive.Responses()} }

func proxy() server {
	return server{name: "reverse proxy", protocol: drive.Responses(), command: func(r *rig, _, model string) (*exec.Cmd, error) {
		return r.role("proxy", "-model", model), nil
	}}
}

func single() server {
	return server{name: "SQLite floor", protocol: drive.Floor(), tool: "get_weather", command: func(r *rig, dir, model string) (*exec.Cmd, error) {
		return r.role("floor", "-model", model, "-db", filepath.Join(dir, "floor.db")), nil
	}}
}

func group() server {
	return server{name: "SQLite floor, group commit", protocol: drive.Floor(), tool: "get_weather", command: func(r *rig, dir, model string) (*exec.Cmd, error) {
		return r.role("floor", "-group", "-model", model, "-db", filepath.Join(dir, "floor.db")), nil
	}}
}

// replaying is Aptix with a model that remembers nothing, which is sent the transcript;
// so do the floors.
func replaying() server { return aptix("Aptix", "replay") }

// chaining is Aptix with a model that remembers its responses.
func chaining() server { return aptix("Aptix, chained", "provider") }

func aptix(name, continuity string) server {
	return server{name: name, protocol: drive.Aptix(), tool: "agent_list_modes", command: func(r *rig, dir, model string) (*exec.Cmd, error) {
		file := filepath.Join(dir, "aptix.yaml")
		settings := fmt.Sprintf("provider: openai\nmodel: mock\ncontinuity: %s\nopenai: {baseURL: %s/v1, apiKey: none}\nlimits: {modelConcurrency: 20000, streams: 20000}\n", continuity, model)
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(r.aptix, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", dir)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "APTIX_") && !strings.HasPrefix(v, "OPENAI_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		return cmd, nil
	}}
}

// subject is a server that runs, and its driver.
type subject struct {
	server
	process *process
	driver  *drive.Driver
	idle    usage // before its first turn
}

// usage returns what the subject has used so far.
func (s *subject) usage() usage {
	u, _ := usageOf(s.process.pid())
	return u
}

// maxWords bounds what is shown of a server's log.
const maxWords = 2 << 10

// blame says which server an error comes from, behind that server's last words, which are
// many: the error is what is looked for at the end.
func (s *subject) blame(err error) error {
	words, _ := os.ReadFile(s.process.log)
	return fmt.Errorf("the last words of %s:\n%s\n%s: %w", s.name, words[max(0, len(words)-maxWords):], s.name, err)
}

// field is a model and the servers that stand in front of it, all running.
type field struct {
	rig      *rig
	model    *process
	subjects []*subject
}

// model says how the mock answers: so many tokens, with a gap between them.
type model struct {
	tokens int
	gap    time.Duration
}

// open starts a model and servers. tool has each turn call a tool.
func (r *rig) open(ctx context.Context, m model, tool bool, servers ...server) (_ *field, err error) {
	f := &field{rig: r}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	f.model, err = f.start(ctx, func(string) (*exec.Cmd, error) {
		return r.role("mock", "-tokens", fmt.Sprint(m.tokens), "-gap", m.gap.String()), nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		subject := &subject{server: s, process: f.model}
		if s.command != nil {
			subject.process, err = f.start(ctx, func(dir string) (*exec.Cmd, error) { return s.command(r, dir, f.model.url) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		cfg := drive.Config{URL: subject.process.url, Protocol: s.protocol, AnswerBytes: m.tokens * mock.TokenBytes}
		if tool {
			cfg.Tool = mock.ToolMark + s.tool
		}
		subject.driver = drive.New(cfg)
		f.subjects = append(f.subjects, subject)
	}
	// What a server does after its start is no part of its idle state.
	select {
	case <-time.After(r.pause()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, s := range f.subjects {
		s.idle = s.usage()
	}
	return f, nil
}

// start starts a process in a folder of its own.
func (f *field) start(ctx context.Context, command func(dir string) (*exec.Cmd, error)) (*process, error) {
	dir, err := os.MkdirTemp(f.rig.dir, "server")
	if err != nil {
		return nil, err
	}
	cmd, err := command(dir)
	if err != nil {
		return nil, err
	}
	return start(ctx, cmd, dir)
}

// close ends all processes and removes their data.
func (f *field) close() {
	processes := map[*process]bool{}
	if f.model != nil {
		processes[f.model] = true
	}
	for _, s := range f.subjects {
		s.driver.Close()
		processes[s.process] = true
	}
	for p := range processes {
		u, _ := usageOf(p.pid())
		f.rig.used += u.cpu
		p.stop()
		_ = os.RemoveAll(p.cmd.Dir)
	}
}
