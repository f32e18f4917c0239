package main

import (
	"fmt"
	"net"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
)

// metricsAddress is where the metrics have a listener of their own: on this machine, when
// no host is named.
func metricsAddress(cfg config.Config) string {
	host, port, err := net.SplitHostPort(cfg.Metrics.Listen)
	if err != nil || host != "" {
		return cfg.Metrics.Listen
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// serveMetrics opens the listener that has the metrics alone, where one is configured.
func serveMetrics(cfg config.Config, n *node.Node) (stop func(), err error) {
	at := metricsAddress(cfg)
	if at == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w; choose another address with --metrics-listen", err)
	}
	web := n.MetricsServer(at)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(listener) // it ends with the server
	}()
	return func() {
		_ = web.Close() // a scrape that is cut comes again
		<-done
	}, nil
}
