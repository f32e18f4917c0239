package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aptixhq/aptix/internal/agent"
)

// The codes of PostgreSQL that are told apart.
const (
	codeReadOnly      = "25006" // the primary has become a standby
	codeForeignKey    = "23503"
	codeUnique        = "23505"
	codeNotACharacter = "22021" // a text that no column can hold
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeDiskFull      = "53100"
	codeTooManyConns  = "53300"
	codeCannotConnect = "57P03" // it starts up, shuts down, or recovers
	classConnection   = "08"
	classOperator     = "57P" // shut down, crashed, dropped, idle for too long
	constraintBlob    = "blob_refs_blob"
	constraintActive  = "turns_active"
	constraintTurn    = "turns_pkey"
	severityFatal     = "FATAL"
	severityPanic     = "PANIC"
)

// outcome says what became of a statement that failed.
type outcome int

const (
	// refused: nothing was written, and trying again would change nothing.
	refused outcome = iota
	// conflicted: nothing was written, because of somebody else who is gone now.
	conflicted
	// unsent: nothing was written, for there was no connection to a primary.
	unsent
	// unknown: the connection was lost after something was sent.
	unknown
)

// errAgain says that what was in the way of a write is gone.
var errAgain = errors.New("what was in the way is gone")

// unsentError is a failure before anything was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// judge tells what became of a statement by its error.
func judge(err error) outcome {
	if errors.Is(err, errAgain) {
		return conflicted
	}
	// First, since what the server says when it refuses a connection looks like any other
	// word of it.
	if never := (*unsentError)(nil); errors.As(err, &never) {
		return judgeUnsent(never.err)
	}
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) {
		return judgeSaid(said)
	}
	if !isBroken(err) {
		return refused
	}
	// Whatever the driver says about it: a connection that breaks while the answer to a
	// COMMIT is read is reported as one that was closed before, which "is safe to retry".
	return unknown
}

// judgeUnsent tells whether a connection that was not to be had is worth another try.
func judgeUnsent(err error) outcome {
	said := (*pgconn.PgError)(nil)
	if !errors.As(err, &said) {
		return unsent
	}
	switch {
	case said.Code == codeCannotConnect, said.Code == codeTooManyConns, said.Code == codeReadOnly,
		strings.HasPrefix(said.Code, classConnection), strings.HasPrefix(said.Code, classOperator):
		return unsent
	}
	return refused // a wrong password stays wrong
}

func judgeSaid(said *pgconn.PgError) outcome {
	switch {
	case said.Code == codeSerialization, said.Code == codeDeadlock:
		return conflicted
	case said.Code == codeForeignKey && said.ConstraintName == constraintBlob:
		// A content went with its last session in the moment in which this turn took it up,
		// or was taken up in the moment in which it went.
		return conflicted
	case said.Code == codeReadOnly, said.Code == codeCannotConnect:
		return unsent
	case said.SeverityUnlocalized == severityFatal, said.SeverityUnlocalized == severityPanic,
		strings.HasPrefix(said.Code, classConnection):
		// The connection ends with it. Most of these come before the commit, but not all: a
		// server that is shut down while it waits for its standby has committed.
		return unknown
	}
	return refused
}

// isBroken reports whether an error is one of the connection, or of the time that a call
// may take.
func isBroken(err error) bool {
	network := (net.Error)(nil)
	connect := (*pgconn.ConnectError)(nil)
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, context.DeadlineExceeded)
}

// isCode reports whether the server has said this code.
func isCode(err error, code string) bool {
	said := (*pgconn.PgError)(nil)
	return errors.As(err, &said) && said.Code == code
}

// isTaken reports whether a unique index has refused the row.
func isTaken(err error, index string) bool {
	said := (*pgconn.PgError)(nil)
	return errors.As(err, &said) && said.Code == codeUnique && said.ConstraintName == index
}

// isMissing reports whether there is no such row. A key that no column can hold is the
// key of nothing.
func isMissing(err error) bool {
	return errors.Is(err, pgx.ErrNoRows) || isCode(err, codeNotACharacter)
}

// explain adds what was being done to an error, and gives a full disk and a database that
// is out of reach their kinds.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	switch outcome := judge(err); {
	case isCode(err, codeDiskFull):
		return errFull().Because(err)
	case outcome == unsent, outcome == unknown:
		return errUnavailable().Because(err)
	}
	return err
}

// retryUnavailable is how long a client waits before it looks whether the database is
// back. A failover takes seconds.
const retryUnavailable = 2 * time.Second

// errUnavailable is what a client gets when the database could not be reached in time.
func errUnavailable() *agent.Error {
	e := agent.Errorf(agent.KindUnavailable, "The server's database is out of reach. Send the same request again in a moment.")
	e.RetryAfter = retryUnavailable
	return e
}

func noSession(id agent.SessionID) error {
	return agent.NoSession(id)
}

func noTurn(k agent.TurnKey) error {
	return agent.NoTurn(k)
}
