package main

import (
	"log/slog"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// openBus joins the other nodes, so that they hear of one another's turns sooner than the
// store tells them. Without NATS there is no bus, and nil is returned; config refuses to
// be given one as long as that is always so.
func openBus(config.Config, *events.Hub, *slog.Logger) (pipeline.Bus, error) { return nil, nil }
