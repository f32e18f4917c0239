package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/client"
)

// TestRun opens the shop, asks about an order in both modes, and closes it. The tool is in
// reach where its mode lists it and nowhere else.
func TestRun(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "APTIX_PROVIDER", "APTIX_DATABASE", "APTIX_MODES", "APTIX_CONFIG"} {
		t.Setenv(name, "") // the offline model answers
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, t.TempDir()) }()

	c, err := client.New(client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{
		"orders":  "packed, leaves today",
		"general": "There is no tool `order_status` in this turn.",
	} {
		if _, err := c.CreateSession(t.Context(), client.NewSession{SessionID: mode, Mode: mode}); err != nil {
			t.Fatal(err)
		}
		answer, err := c.Execute(t.Context(), client.UserTurn{SessionID: mode, Instruction: `call order_status {"number": 4711}`})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(answer.PrimaryOutputText, want) {
			t.Errorf("in mode %s: %s", mode, answer.PrimaryOutputText)
		}
	}
	res, err := http.Get(url + "/shop/orders")
	if err != nil {
		t.Fatal(err)
	}
	own, err := io.ReadAll(res.Body)
	if err != nil || string(own) != "2 orders\n" {
		t.Errorf("the shop's own page: %q, %v", own, err)
	}
	_ = res.Body.Close()

	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
