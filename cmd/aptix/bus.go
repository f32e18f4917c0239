package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/node"
)

// checkNATS sees whether NATS answers.
func checkNATS(ctx context.Context, cfg config.Config) (string, error) {
	if cfg.NATS.IsZero() {
		return "not configured; a server that is alone needs none", nil
	}
	b, err := node.OpenBus(cfg, events.NewHub(), slog.New(slog.DiscardHandler))
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
