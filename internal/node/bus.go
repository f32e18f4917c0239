package node

import (
	"fmt"
	"log/slog"

	"github.com/aptixhq/aptix/internal/bus"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// OpenBus joins the other nodes, so that they hear of one another's turns sooner than the
// store tells them. It does not wait for NATS, which may come later. Without NATS there is
// no bus, and nil is returned.
func OpenBus(cfg config.Config, hub *events.Hub, log *slog.Logger) (*bus.Bus, error) {
	if cfg.NATS.IsZero() {
		return nil, nil
	}
	b, err := bus.Open(bus.Config{Servers: cfg.NATS, Hub: hub, Log: log})
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return b, nil
}

// hints is what the pipeline gets: a bus that is not there must be no bus to it.
func hints(b *bus.Bus) pipeline.Bus {
	if b == nil {
		return nil
	}
	return b
}
