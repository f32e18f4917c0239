package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/blockyaml"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/localtools"
	"github.com/aptixhq/aptix/internal/node"
)

// goldenHeader begins each golden file; a file without it is not ours to remove.
const goldenHeader = "# The first request of a session in this mode. Written by 'aptix modes golden'; see docs/modes.md.\n"

// golden is the text of one golden file.
type golden struct {
	mode agent.ModeKey
	text []byte
}

func (g golden) file() string { return string(g.mode) + ".yaml" }

type goldens []golden

// goldenRequests builds the golden files of a catalogue with a server of its own, which
// listens nowhere: what they show is what a turn would send.
func goldenRequests(ctx context.Context, dir string) (_ goldens, err error) {
	data, err := os.MkdirTemp("", "aptix-golden-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	// The file counts, as it does for the server, but for the database that it names. The
	// environment does not: it is another one on every machine.
	cfg, err := config.Load(config.Options{
		Flags: map[string]string{"provider": string(config.ProviderDemo), "modes": dir,
			"data": data, "database": filepath.Join(data, "golden.db")},
		LookupEnv: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		return nil, err
	}
	n, err := node.New(ctx, parts(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	tools, err := chatTools(data)
	if err != nil {
		return nil, err
	}
	var all goldens
	for _, key := range n.Catalog().Keys() {
		g, err := firstRequest(ctx, n, agent.ModeKey(key), tools)
		if err != nil {
			return nil, fmt.Errorf("request of mode %s: %w", key, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// firstRequest previews the first turn of a session in a mode.
func firstRequest(ctx context.Context, n *node.Node, key agent.ModeKey, tools json.RawMessage) (golden, error) {
	by := agent.Caller{Org: "local", User: "local"}
	id := agent.SessionID("golden-" + string(key))
	if _, err := n.Sessions.Create(ctx, by, contract.CreateSession{SessionID: id, Mode: key, Tools: tools}); err != nil {
		return golden{}, err
	}
	shown, err := n.Turns.Preview(ctx, by, contract.UserTurn{SessionID: id, TurnID: "golden", Instruction: "What the user says."})
	if err != nil {
		return golden{}, err
	}
	text, err := blockyaml.Marshal(struct {
		Mode            agent.ModeKey   `json:"mode"`
		CanonicalSHA256 string          `json:"canonicalSha256"`
		WireSHA256      string          `json:"wireSha256"`
		Canonical       json.RawMessage `json:"canonical"`
		Wire            json.RawMessage `json:"wire"`
	}{shown.Mode, shown.CanonicalSHA256, shown.WireSHA256, json.RawMessage(shown.Canonical), json.RawMessage(shown.Wire)})
	return golden{key, append([]byte(goldenHeader), text...)}, err
}

// chatTools are the tools that 'aptix chat' registers, so that a golden request shows
// which of them the mode leaves.
func chatTools(dir string) (json.RawMessage, error) {
	local, err := localtools.Open(dir, localtools.Limits{})
	if err != nil {
		return nil, err
	}
	var tools []map[string]any
	for _, d := range local.Definitions() {
		tools = append(tools, map[string]any{"type": "function", "name": d.Name, "description": d.Description, "parameters": d.Parameters})
	}
	b, err := json.Marshal(tools)
	return b, errors.Join(err, local.Close())
}

// drift says for each mode how its request differs from the golden file in a folder.
func (gs goldens) drift(dir string) ([]string, error) {
	var drifts []string
	for _, g := range gs {
		path := filepath.Join(dir, g.file())
		was, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			drifts = append(drifts, fmt.Sprintf("mode %s: there is no %s", g.mode, path))
		case err != nil:
			return nil, err
		case !bytes.Equal(was, g.text):
			drifts = append(drifts, fmt.Sprintf("mode %s: the request is another one, from %s:%d on\n%s", g.mode, path, firstDifference(was, g.text),
				diff.Diff("recorded", was, "now", g.text)))
		}
	}
	orphans, err := gs.orphans(dir)
	for _, path := range orphans {
		drifts = append(drifts, fmt.Sprintf("%s: there is no such mode any more", path))
	}
	return drifts, err
}

// firstDifference returns the first line in which a file is not the same any more. The
// hashes stand before all else and always differ then; they say nothing.
func firstDifference(was, now []byte) int {
	a, b := strings.Split(string(was), "\n"), strings.Split(string(now), "\n")
	for i, line := range a {
		if (i >= len(b) || line != b[i]) && !strings.Contains(line, "Sha256: ") {
			return i + 1
		}
	}
	return len(a)
}

// orphans are the golden files in a folder whose mode is gone.
func (gs goldens) orphans(dir string) ([]string, error) {
	known := map[string]bool{}
	for _, g := range gs {
		known[g.file()] = true
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var orphans []string
	for _, path := range paths {
		if known[filepath.Base(path)] {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(text, []byte(goldenHeader)) {
			orphans = append(orphans, path)
		}
	}
	return orphans, nil
}
