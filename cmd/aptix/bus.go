package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/bus"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// openBus joins the other nodes, so that they hear of one another's turns sooner than the
// store tells them. It does not wait for NATS, which may come later. Without NATS there is
// no bus, and nil is returned.
func openBus(cfg config.Config, hub *events.Hub, log *slog.Logger) (*bus.Bus, error) {
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

// checkNATS sees whether NATS answers.
func checkNATS(ctx context.Context, cfg config.Config) (string, error) {
	if cfg.NATS.IsZero() {
		return "not configured; a server that is alone needs none", nil
	}
	b, err := openBus(cfg, events.NewHub(), slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer b.Close()
	for !b.Connected() {
		select {
		case <-ctx.Done():
			return "", errors.New("none of the NATS servers answers; servers work without, and see one another's turns later")
		case <-time.After(10 * time.Millisecond): // nothing tells when it is
		}
	}
	return "a NATS server answers", nil
}
