package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aptixhq/aptix/internal/natstest"
)

// These tests plant a canary for each secret that a server knows, let everything go wrong in
// which a secret could come out, and look for the canaries, in every form in which a byte
// string gets into a text, in all that the server wrote, said and kept.

// TestCanaries_File is a server on a SQLite file, with a provider, an embeddings API and MCP
// servers that repeat what they were sent, and with a collector of its traces.
// It holds rows S-25 and S-27 of docs/security.md.
func TestCanaries_File(t *testing.T) {
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	c.command(0, "index", c.write("docs/a.txt", "All about canaries."))
	c.embeddingsFail.Store(true)
	s := c.serve()
	c.drive(s)
	c.doctor()
	s.end(t, syscall.SIGINT)
	c.traces()

	c.lookFor(everywhere)
	for _, file := range c.dataFiles() {
		c.look("the data file "+filepath.Base(file), read(t, file), notStored)
	}
}

// TestCanaries_Database is a server on PostgreSQL with NATS, both with passwords.
// It holds row S-25 of docs/security.md.
func TestCanaries_Database(t *testing.T) {
	c := newColony(t)
	dsn := databases.URL(t)
	nats := natstest.Start(t)
	c.set("APTIX_DATABASE", strings.Replace(dsn, "postgres:///", "postgres://aptix:"+c.canary["database"]+"@/", 1))
	c.set("APTIX_NATS", strings.Replace(nats.URL(), "nats://", "nats://aptix:"+c.canary["nats"]+"@", 1))
	c.command(0, "mcp", "approve", "--yes")
	s := c.serve()
	c.drive(s)
	nats.Stop()
	c.command(-1, "doctor") // without NATS
	c.drive(s)
	s.end(t, syscall.SIGINT)
	c.traces()

	c.lookFor(everywhere)
	for table, rows := range tables(t, dsn) {
		c.look("the table "+table, rows, notStored)
	}
}

// TestCanaries_WhatCannotStart plants passwords in addresses that lead nowhere, or cannot be
// read.
// It holds row S-25 of docs/security.md.
func TestCanaries_WhatCannotStart(t *testing.T) {
	c := newColony(t)
	password := c.canary["database"]
	for _, database := range []string{
		"postgres://aptix:" + password + "@127.0.0.1:1/d", "postgres://aptix:" + password + "%@127.0.0.1:1/d", "postgres://127.0.0.1:1/d?password=" + password,
		"postgres://aptix:" + password + "@127.0.0.1:port/d", "postgres://aptix:" + password + "@/", "mysql://aptix:" + password + "@127.0.0.1/d",
		"postgres://aptix:" + password + "@127.0.0.1:1/d?pool_max_conns=many", "postgres://aptix:" + password + "@127.0.0.1:1/d?sslmode=perhaps",
	} {
		c.set("APTIX_DATABASE", database)
		c.command(-1, "serve", "--listen", "127.0.0.1:0")
		c.command(-1, "doctor")
	}
	c.set("APTIX_DATABASE", "postgres://127.0.0.1:1/d")
	token := c.canary["nats"]
	for _, nats := range []string{"nats://aptix:" + token + "@127.0.0.1:1", "nats://" + token + "@127.0.0.1:port", token + "@x, http://" + token + "@y", "nats://a:" + token + "%@x"} {
		c.set("APTIX_NATS", nats)
		c.command(-1, "doctor")
	}
	c.lookFor(everywhere)
}

// TestCanaries_CrashDump ends a server in the way that has Go write down all goroutines,
// while it speaks with its provider.
// It holds row S-25 of docs/security.md.
func TestCanaries_CrashDump(t *testing.T) {
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	s := c.serve()
	s.do("POST", "/v1/agent/execute", c.turn("local", "do:local-tool"))
	go func() { // nobody answers it
		if res, err := s.post("/v1/agent/execute", c.turn("crash", "do:hang")); err == nil {
			_ = res.Body.Close()
		}
	}()
	select {
	case <-c.hung:
	case <-time.After(within):
		t.Fatalf("the provider was not asked:\n%s", s.said())
	}
	s.end(t, syscall.SIGQUIT)
	if said := s.said(); !strings.Contains(said, "goroutine ") || !strings.Contains(said, "SIGQUIT") {
		t.Fatalf("there is no crash dump:\n%s", said)
	}
	c.lookFor(everywhere)
}

// TestCanaries_AreFound: what is looked for is found in each of its forms, or the tests above
// show nothing.
// It holds row S-25 of docs/security.md.
func TestCanaries_AreFound(t *testing.T) {
	const secret = `cnry-x/+="&%0123456789`
	for _, text := range []string{secret, "a" + secret, `{"a":"cnry-x/+=\"\u0026%0123456789"}`, "cnry-x%2F%2B%3D%22%26%250123456789", fmt.Sprintf("%x", "ab"+secret), fmt.Sprintf("%X", secret),
		base64Of("Bearer " + secret), base64Of("x" + secret + "y"), base64Of("xy" + secret), `cnry-x/+=\"&%0123456789`} {
		if found(text, secret) == "" {
			t.Errorf("not found in %s", text)
		}
	}
	if form := found(strings.Repeat("cnry-", 100)+base64Of("something else"), secret); form != "" {
		t.Errorf("found %s", form)
	}
}

// tables returns all rows of a database, by table.
func tables(t *testing.T, dsn string) map[string]string {
	t.Helper()
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	rows, _ := db.Query(t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		t.Fatalf("tables: %v, %v", names, err)
	}
	out := map[string]string{}
	for _, name := range names {
		// Bytes come out as hexadecimal, which is one of the forms.
		rows, _ := db.Query(t.Context(), `SELECT t::text FROM `+name+` t`)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		out[name] = strings.Join(all, "\n")
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
