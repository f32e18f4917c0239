package pgindex_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/pgindex"
	"github.com/aptixhq/aptix/internal/rag/ragtest"
	"github.com/aptixhq/aptix/internal/secret"
)

// cluster is the PostgreSQL server of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster.Around(m)) }

func open(t *testing.T, connection string) *pgindex.Store {
	t.Helper()
	s, err := pgindex.Open(t.Context(), secret.New(connection))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	ragtest.Suite(t, false, func(t *testing.T) rag.Keeper { return open(t, cluster.Database(t)) })
}

// Nodes that start together make the tables once.
func TestOpen_Together(t *testing.T) {
	connection := cluster.Database(t)
	failed := make(chan error)
	for range 8 {
		go func() {
			s, err := pgindex.Open(t.Context(), secret.New(connection))
			if err == nil {
				err = s.Close()
			}
			failed <- err
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	open(t, connection)
}
