package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aptixhq/aptix/internal/pgtest"
)

// What was committed is there after the primary is gone, twice in a row.
func TestPair(t *testing.T) {
	p := pgtest.NewPair(t)
	ctx := t.Context()
	do := func(do func(*pgx.Conn) error) {
		t.Helper()
		c, err := pgx.Connect(ctx, p.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(ctx) }()
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(statement string) {
		t.Helper()
		do(func(c *pgx.Conn) error { _, err := c.Exec(ctx, statement); return err })
	}
	exec("CREATE TABLE kept (n int)")
	for range 2 {
		exec("INSERT INTO kept VALUES (1)")
		p.Fail()
		p.Mend()
	}
	var n int
	do(func(c *pgx.Conn) error { return c.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&n) })
	if n != 2 {
		t.Errorf("%d rows of 2 are there", n)
	}
}
