package main

import (
	"errors"
	"log/slog"
	"os"
	"slices"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
)

// liveModes are the modes of a running server, and where they come from.
type liveModes struct {
	cfg  config.Config
	live *mode.Live
	log  *slog.Logger
}

// openModes reads the modes; any fault in them stops the start (decision 31).
func openModes(cfg config.Config, log *slog.Logger) (*liveModes, error) {
	c, err := loadModes(cfg, log)
	if err != nil {
		return nil, err
	}
	return &liveModes{cfg: cfg, live: mode.NewLive(c), log: log}, nil
}

// reload reads the modes anew, for turns that begin later (D78). When anything is wrong
// with them those in force stay, and the log has each problem.
func (m *liveModes) reload() {
	log := m.log.With("folder", nameOf(m.cfg.Modes))
	c, err := loadModes(m.cfg, m.log)
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

// loadModes reads and checks the configured modes.
func loadModes(cfg config.Config, log *slog.Logger) (*mode.Catalog, error) {
	dir := cfg.Modes
	problems, err := lint(cfg, dir)
	if err != nil {
		return nil, err
	}
	if problems.Fatal() {
		return nil, problems
	}
	for _, p := range problems {
		log.Warn("mode file", "folder", nameOf(dir), "problem", p.String())
	}
	if dir == "" {
		return mode.Builtin(), nil
	}
	return mode.Load(os.DirFS(dir))
}
