// Package postgrestest gives tests databases that have their tables already. What
// migrations do is tested beside them, in package postgres. In a turn the package has no
// part.
package postgrestest

import (
	"context"

	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/store/postgres"
)

// Migrate makes the tables in an empty database; it is what Prepare of a pgtest.Cluster
// takes.
func Migrate(connection string) error {
	s, err := postgres.Open(context.Background(), secret.New(connection), nil)
	if err != nil {
		return err
	}
	return s.Close()
}
