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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is one PostgreSQL server: its data, its socket, its process. It is used by one
// goroutine at a time.
type server struct {
	bin      string // where PostgreSQL's commands are
	owner    func(*exec.Cmd)
	folder   string
	settings []string
	process  *exec.Cmd
	alive    io.WriteCloser // the server runs as long as this is open
}

// errMissing says that PostgreSQL is not installed.
var errMissing = errors.New("PostgreSQL's initdb and postgres are neither on the path nor in /usr/lib/postgresql; install the package postgresql")

// startTime is how long a server may take until it answers.
const startTime = 60 * time.Second

// need ends the test unless there is a server. Where PostgreSQL is not installed the test
// is skipped, if that is allowed.
func need(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) && os.Getenv("APTIX_REQUIRE_POSTGRES") != "1" {
		t.Skipf("WARNING: nothing of this is tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newServer returns a server that has no data yet and does not run.
func newServer(durable bool, settings ...string) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, settings: settings}
	if s.folder, err = os.MkdirTemp("", "aptix-pg-"); err != nil {
		return nil, err
	}
	if s.owner, err = unprivileged(s.folder); err != nil {
		return nil, errors.Join(fmt.Errorf("find a user to run PostgreSQL, which root may not: %w", err), os.RemoveAll(s.folder))
	}
	if !durable {
		s.settings = append(s.settings, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	return s, nil
}

func (s *server) data() string   { return filepath.Join(s.folder, "data") }
func (s *server) socket() string { return filepath.Join(s.folder, ".s.PGSQL.5432") }

func (s *server) dsn(database string) string {
	return fmt.Sprintf("host=%s user=aptix dbname=%s sslmode=disable", s.folder, database)
}

// run runs one of PostgreSQL's commands to its end.
func (s *server) run(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	s.owner(cmd)
	cmd.Dir = s.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// initialise makes empty data.
func (s *server) initialise() error {
	return s.run("initdb", "-D", s.data(), "-U", "aptix", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
}

// launch starts the server on the data that is there.
func (s *server) launch() error {
	args := []string{"-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c", "max_connections=300", "-c", "deadlock_timeout=100ms"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	// The shell ends the server when its input is closed: by kill, or by the system when
	// this process dies without a word. A line names another signal than QUIT.
	s.process = exec.Command("/bin/sh", slices.Concat([]string{"-c",
		`"$@" </dev/null & server=$!; read -r signal; kill -${signal:-QUIT} $server; wait $server`, "sh", filepath.Join(s.bin, "postgres")}, args)...)
	s.owner(s.process)
	s.process.Dir = s.folder
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	if s.alive, err = s.process.StdinPipe(); err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.ready(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// kill ends the server at once, as it ends itself when its disk fails: its log ends where
// it stood, its clients are told.
func (s *server) kill() error { return s.end("") }

// end ends the server by a signal, by default SIGQUIT.
func (s *server) end(signal string) error {
	if s.alive == nil {
		return nil
	}
	_, err := io.WriteString(s.alive, signal+"\n")
	err = errors.Join(err, s.alive.Close())
	// It ends by a signal; what it says about that is of no interest.
	_ = s.process.Wait()
	s.alive = nil
	return err
}

// remove ends the server and removes all that it has written.
func (s *server) remove() error { return errors.Join(s.kill(), os.RemoveAll(s.folder)) }

// ready returns when the server answers.
func (s *server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.dsn("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
			return fmt.Errorf("it does not answer: %w\n%s", err, log)
		case <-time.After(20 * time.Millisecond): // nothing tells when another process is ready
		}
	}
}

// administer is execute for a test.
func (s *server) administer(t testing.TB, statement string) {
	t.Helper()
	if err := s.execute(statement); err != nil {
		t.Fatal(err)
	}
}

// execute runs a statement in the database that is always there.
func (s *server) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", statement, err), conn.Close(ctx))
	}
	return conn.Close(ctx)
}

// binaries returns the folder of the newest PostgreSQL that is installed.
func binaries() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real // the others may have no link beside it
		}
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
