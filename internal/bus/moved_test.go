package bus

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/natstest"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestMoved_TellsTheOthers(t *testing.T) {
	one, two := pair(t)
	three := start(t, one.Servers.Reveal())
	connected(t, three)
	told := make(chan string, 100)
	for name, n := range map[string]*node{"one": one, "two": two, "three": three} {
		n.OnMoved(func(k agent.TurnKey) { told <- name + " " + k.String() })
	}
	one.Moved(key)
	got := []string{<-told, <-told}
	if got[0] > got[1] {
		got[0], got[1] = got[1], got[0]
	}
	if diff := cmp.Diff([]string{"three acme/s1/t1", "two acme/s1/t1"}, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	// Nothing else is under way: the next one comes next.
	two.Moved(agent.TurnKey{Org: "acme", Session: "s2", Turn: "t2"})
	for range 2 {
		if got := <-told; !strings.HasSuffix(got, "s2/t2") || strings.HasPrefix(got, "two") {
			t.Errorf("told: %s", got)
		}
	}
}

func TestMoved_WhatWaitsGoesOutBeforeTheEnd(t *testing.T) {
	one, two := pair(t)
	told := make(chan agent.TurnKey, 1000)
	two.OnMoved(func(k agent.TurnKey) { told <- k })
	for i := range 500 {
		one.Moved(agent.TurnKey{Session: "s", Turn: agent.TurnID(fmt.Sprint(i))})
	}
	one.Close()
	for i := range 500 {
		if got := <-told; string(got.Turn) != fmt.Sprint(i) {
			t.Fatalf("told of turn %s, want %d", got.Turn, i)
		}
	}
	one.Moved(key) // and nothing happens
}

func TestMoved_NeverWaits(t *testing.T) {
	n, _ := pair(t)
	n.wire.mu.Lock() // nothing can be sent
	for range 2 * maxMoves {
		n.Moved(key)
	}
	n.wire.mu.Unlock()
	if dropped := n.dropped.Load(); dropped < maxMoves-1 {
		t.Errorf("%d hints were dropped, want all that do not fit", dropped)
	}
}

// What others send may be anything.
func TestMalformedMessagesAreCountedAndLoggedOnce(t *testing.T) {
	var log strings.Builder
	url := natstest.Start(t).URL()
	n := start(t, url, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	noisy := start(t, url)
	connected(t, n, noisy)
	told := make(chan agent.TurnKey, 10)
	n.OnMoved(func(k agent.TurnKey) { told <- k })
	for range 100 {
		for subject, data := range map[string]string{
			"moved":            `{"v":1,"org":"acme"}`,
			"follow":           `{"v":1,"session":"s","turn":"t","first":-1,"from":-1}`,
			"follow." + n.node: "\x00",
		} {
			if err := noisy.nats.Publish(n.subject(subject), []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Of a later version, however it is built; and an ask that does not say who asks.
	for subject, data := range map[string]string{"moved": `{"v":2,"org":["acme"]}`, "follow": `{"v":2}`} {
		if err := noisy.nats.Publish(n.subject(subject), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	noisy.send(n.subject("follow"), "elsewhere", ask{header: headerOf(key)})
	noisy.Moved(key)
	<-told
	eventually(t, "all are counted", func() bool { return n.malformed.total() == 301 })
	n.Close() // it writes nothing any more
	if lines := strings.Count(log.String(), "cannot be read"); lines != 1 {
		t.Errorf("%d lines in the log, want 1:\n%s", lines, log.String())
	}
}

func TestOpen_Refuses(t *testing.T) {
	here := t.TempDir()
	cert := filepath.Join(here, "cert.pem")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no address":     {func(c *Config) { c.Servers = secret.New(" ") }, "want at least one"},
		"a bad address":  {func(c *Config) { c.Servers = secret.New("nats://a:4222,nats://u:secret@b:x") }, "address 2 of the NATS servers: want nats://HOST:PORT"},
		"another scheme": {func(c *Config) { c.Servers = secret.New("http://u:secret@b") }, "http is unknown; want nats, tls, ws or wss"},
		"a bad prefix":   {func(c *Config) { c.Prefix = "a.*" }, `the prefix "a.*" of the NATS subjects`},
		"a missing file": {func(c *Config) { c.Files.Credentials = filepath.Join(here, "none") }, "no such file"},
		"half a pair":    {func(c *Config) { c.Files.Certificate = cert }, "a certificate and its key belong together"},
		"no hub":         {func(c *Config) { c.Hub = nil }, "Hub and Log are required"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Servers: secret.New("nats://127.0.0.1:1"), Hub: events.NewHub(), Log: slog.New(slog.DiscardHandler)}
			tc.change(&c)
			b, err := Open(c)
			if err == nil {
				b.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %q, want %q in it and no password", err, tc.want)
			}
		})
	}
}
