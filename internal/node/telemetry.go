package node

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/telemetry/export"
)

// watching is how a server is watched: what it counts, and where its traces go.
type watching struct {
	telemetry *telemetry.Telemetry
	exporter  *export.Exporter // nil when nothing is exported
}

// openTelemetry returns what counts, and the way to the collector if one is configured.
func openTelemetry(cfg config.Config, log *slog.Logger) (watching, error) {
	about := telemetry.Config{Provider: providerName(cfg), Version: moduleVersion(), Content: cfg.Telemetry.Content}
	if !cfg.Telemetry.OTLP.Configured() {
		return watching{telemetry: telemetry.New(about)}, nil
	}
	to := cfg.Telemetry.Export()
	to.Version = about.Version
	to.Complain = func(err error) {
		log.Warn("traces are not taken by their collector; turns go on without", "error", err)
	}
	exporter, err := export.New(to)
	if err != nil {
		return watching{}, err
	}
	about.Tracer = exporter.Tracer()
	return watching{telemetry.New(about), exporter}, nil
}

// ask has the metrics tell what the parts of the server know.
func (w watching) ask(store Journal, turns *pipeline.Pipeline) {
	store.OnCommit(w.telemetry.Committed)
	w.telemetry.Ask(telemetry.Gauges{Leases: turns.Leases, Queued: store.Queued, Room: store.Room, Spans: w.exporter.Counts})
}

// exportTime bounds how long a server that stops waits for its collector.
const exportTime = 3 * time.Second

// close sends the last spans. That a collector does not take them keeps nobody from
// stopping.
func (w watching) close() {
	ctx, cancel := context.WithTimeout(context.Background(), exportTime)
	defer cancel()
	_ = w.exporter.Close(ctx)
}

// providerName names the provider as OpenTelemetry's conventions do.
func providerName(cfg config.Config) string {
	switch {
	case cfg.Provider == config.ProviderDemo:
		return "aptix.demo"
	case cfg.OpenAI.Preset == config.PresetAzure:
		return "azure.ai.openai"
	case cfg.OpenAI.Preset != "":
		return string(cfg.OpenAI.Preset)
	}
	return "openai_compatible"
}

// moduleVersion is the version of the build.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
