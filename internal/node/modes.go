package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/aptixhq/aptix/internal/mode"
)

// liveModes are the modes of a running node, and where they come from.
type liveModes struct {
	from Config
	live *mode.Live
}

// openModes reads the modes; any fault in them stops the start (decision 31).
func openModes(c Config) (*liveModes, error) {
	catalog, err := loadModes(c)
	if err != nil {
		return nil, err
	}
	return &liveModes{from: c, live: mode.NewLive(catalog)}, nil
}

// reload reads the modes anew, for turns that begin later (D78). When anything is wrong
// with them those in force stay, and the log has each problem.
func (m *liveModes) reload() {
	log := m.from.Log.With("folder", m.from.modesName())
	c, err := loadModes(m.from)
	if problems := (mode.Problems)(nil); errors.As(err, &problems) {
		for _, p := range problems {
			log.Error("mode file", "problem", p.String())
		}
		log.Error("the modes were not reloaded: those in force stay", "problems", len(problems))
		return
	}
	if err != nil {
		log.Error("the modes were not reloaded: those in force stay", "error", err)
		return
	}
	added, removed, changed := difference(m.live.Current(), c)
	m.live.Replace(c)
	log.Info("the modes were reloaded, for turns that begin now", "added", added, "removed", removed, "changed", changed)
}

// difference names the modes in which two catalogues differ.
func difference(from, to *mode.Catalog) (added, removed, changed []string) {
	changed = from.Changed(to)
	added = slices.DeleteFunc(to.Keys(), func(k string) bool { return slices.Contains(from.Keys(), k) })
	removed = slices.DeleteFunc(from.Keys(), func(k string) bool { return slices.Contains(to.Keys(), k) })
	return added, removed, changed
}

// loadModes reads and checks the modes of a node.
func loadModes(c Config) (*mode.Catalog, error) {
	problems, err := c.Lint()
	if err != nil {
		return nil, err
	}
	if problems.Fatal() {
		return nil, problems
	}
	for _, p := range problems {
		c.Log.Warn("mode file", "folder", c.modesName(), "problem", p.String())
	}
	files, err := c.modeFiles()
	if err != nil {
		return nil, err
	}
	catalog, err := mode.Load(files)
	if err != nil {
		return nil, err
	}
	return catalog.Give(c.ModeTools)
}

// Lint returns what is wrong with the mode files, tools that the node would not have
// included. It needs no catalogue that can be loaded.
func (c Config) Lint() (mode.Problems, error) {
	files, err := c.modeFiles()
	if err != nil {
		return nil, err
	}
	// The names of the tools do not depend on the catalogue, which may be broken.
	c.Log = slog.New(slog.DiscardHandler)
	servers, err := mcpServers(c)
	if err != nil {
		return nil, err
	}
	registry, err := newRegistry(c, &lateSessions{}, mode.Builtin(), servers)
	if err != nil {
		return nil, err
	}
	return mode.Lint(files, registry.Entries()), nil
}

func (c Config) modeFiles() (fs.FS, error) {
	if c.Modes != nil {
		return c.Modes, nil
	}
	return ModeFiles(c.Settings.Modes)
}

func (c Config) modesName() string {
	if c.Modes != nil {
		return "the program's modes"
	}
	return ModesName(c.Settings.Modes)
}

// ModeFiles returns the folder of the mode files; "" is the built-in catalogue.
func ModeFiles(dir string) (fs.FS, error) {
	if dir == "" {
		return mode.Files(), nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("mode files: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("mode files: %s is not a folder", dir)
	}
	return os.DirFS(dir), nil
}

// ModesName is what people are told of a folder of modes; "" is the built-in catalogue.
func ModesName(dir string) string {
	if dir == "" {
		return "built-in modes"
	}
	return dir
}
