// Package pgtest runs a PostgreSQL server for tests: a cluster of its own, made by the
// installed binaries in a temporary folder, which goes when the tests have ended, however
// they end. In a turn the package has no part.
//
// Where PostgreSQL is not installed the tests that need it are skipped and say so; with
// APTIX_REQUIRE_POSTGRES=1 they fail instead.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a PostgreSQL server for the tests of one binary. The zero value is ready: it
// starts when the first test asks for a database. Give TestMain's M to Around, which
// stops it.
type Cluster struct {
	// Durable makes commits wait for the disk, as they do in earnest; else nothing is
	// synced, which is much quicker.
	Durable bool

	mu       sync.Mutex // guards what follows
	tried    bool
	err      error  // why it did not start
	bin      string // where PostgreSQL's commands are
	owner    func(*exec.Cmd)
	folder   string
	server   *exec.Cmd
	alive    io.Closer // the server runs as long as this is open
	database int       // how many were made
}

// errMissing says that PostgreSQL is not installed.
var errMissing = errors.New("PostgreSQL's initdb and postgres are neither on the path nor in /usr/lib/postgresql; install the package postgresql")

// startTime is how long a server may take until it answers.
const startTime = 60 * time.Second

// Database makes an empty database that goes with the test, and returns its connection
// string.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	err := c.start()
	if errors.Is(err, errMissing) && os.Getenv("APTIX_REQUIRE_POSTGRES") != "1" {
		t.Skipf("WARNING: nothing of this is tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.database++
	name := fmt.Sprint("test", c.database)
	c.mu.Unlock()
	c.administer(t, "CREATE DATABASE "+name)
	// A test may have left connections behind, such as those of a process that it killed.
	t.Cleanup(func() { c.administer(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return c.dsn(name)
}

// URL is Database with the connection string as a URL, for those who take no other.
func (c *Cluster) URL(t testing.TB) string {
	t.Helper()
	at, err := pgx.ParseConfig(c.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("postgres:///%s?host=%s&user=%s&sslmode=disable", at.Database, c.folder, at.User)
}

// Socket is the path of the unix socket on which the server listens, for those that stand
// between a client and it.
func (c *Cluster) Socket() string { return filepath.Join(c.folder, ".s.PGSQL.5432") }

// Around runs the tests and stops the server.
func (c *Cluster) Around(m interface{ Run() int }) interface{ Run() int } { return around{c, m} }

type around struct {
	c *Cluster
	m interface{ Run() int }
}

// Run implements what goleak wants of a testing.M.
func (a around) Run() int {
	code := a.m.Run()
	if err := a.c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		code = max(code, 1)
	}
	return code
}

// Crash ends the server as a crash does, and starts it again: it has to recover from its
// log.
func (c *Cluster) Crash(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.launch(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server and removes all it has written.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.kill()
	if c.folder != "" {
		err = errors.Join(err, os.RemoveAll(c.folder))
	}
	return err
}

func (c *Cluster) dsn(database string) string {
	return fmt.Sprintf("host=%s user=aptix dbname=%s sslmode=disable", c.folder, database)
}

// administer runs a statement in the database that is always there.
func (c *Cluster) administer(t testing.TB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.dsn("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// start starts the server, once.
func (c *Cluster) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tried {
		c.tried = true
		c.err = c.run()
	}
	return c.err
}

func (c *Cluster) run() error {
	bin, err := binaries()
	if err != nil {
		return err
	}
	if c.folder, err = os.MkdirTemp("", "aptix-pg-"); err != nil {
		return err
	}
	owner, err := unprivileged(c.folder)
	if err != nil {
		return fmt.Errorf("find a user to run PostgreSQL, which root may not: %w", err)
	}
	c.bin, c.owner = bin, owner
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(c.folder, "data"), "-U", "aptix",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	owner(initdb)
	initdb.Dir = c.folder
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c.launch()
}

// launch starts the server on the data that is there.
func (c *Cluster) launch() error {
	settings := []string{"-D", filepath.Join(c.folder, "data"), "-k", c.folder, "-c", "listen_addresses=", "-c", "max_connections=300",
		"-c", "deadlock_timeout=100ms"}
	if !c.Durable {
		settings = append(settings, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	// The shell ends the server when its input is closed: by kill, or by the system when
	// this process dies without a word.
	c.server = exec.Command("/bin/sh", slices.Concat([]string{"-c",
		`"$@" </dev/null & server=$!; read -r _; kill -QUIT $server; wait $server`, "sh", filepath.Join(c.bin, "postgres")}, settings)...)
	c.owner(c.server)
	c.server.Dir = c.folder
	log, err := os.OpenFile(filepath.Join(c.folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.server.Stdout, c.server.Stderr = log, log
	if c.alive, err = c.server.StdinPipe(); err != nil {
		return err
	}
	if err := c.server.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.ready(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// kill ends the server at once.
func (c *Cluster) kill() error {
	if c.alive == nil {
		return nil
	}
	err := c.alive.Close()
	// It ends by a signal; what it says about that is of no interest.
	_ = c.server.Wait()
	c.alive = nil
	return err
}

// ready returns when the server answers.
func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.dsn("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(c.folder, "log"))
			return fmt.Errorf("it does not answer: %w\n%s", err, log)
		case <-time.After(20 * time.Millisecond): // nothing tells when another process is ready
		}
	}
}

// binaries returns the folder of the newest PostgreSQL that is installed.
func binaries() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		folder := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errMissing
	}
	return filepath.Dir(found[len(found)-1]), nil
}
