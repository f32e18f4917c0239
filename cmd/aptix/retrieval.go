package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/pgindex"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

// localOrg is the organisation of whoever uses a server without authentication.
const localOrg = "local"

// openIndexes opens what keeps the indexes: a file beside the data file, or the database
// that several nodes share.
func openIndexes(ctx context.Context, cfg config.Config) (rag.Keeper, error) {
	if connection, ok := cfg.PostgreSQL(); ok {
		return pgindex.Open(ctx, connection)
	}
	return sqliteindex.New(cfg.IndexPath()), nil
}

// embedder returns what makes vectors: an embeddings API when one is configured, and else
// the offline one. A whole folder goes to somebody else only when it was said so. Where
// indexes have no vectors it is nil.
func embedder(cfg config.Config) (rag.Embedder, error) {
	e := cfg.Embeddings
	if _, ok := cfg.PostgreSQL(); ok {
		return nil, nil
	}
	if e.Model == "" {
		return embedding.Hashing{}, nil
	}
	return embedding.NewAPI(embedding.APIConfig{
		BaseURL: e.BaseURL, Model: e.Model, Key: e.APIKey,
		Batch: e.Batch, Timeout: e.Timeout, Attempts: e.Attempts,
	})
}

// retriever returns what searches the indexes for a turn, nil when that is off.
func retriever(cfg config.Config, store rag.Store, log *slog.Logger) (pipeline.Retriever, error) {
	r := cfg.Retrieval
	if r.Search == config.SearchOff {
		return nil, nil
	}
	vectors, err := embedder(cfg)
	if err != nil {
		return nil, err
	}
	if vectors == nil {
		log.Info("indexes in PostgreSQL have no vectors; they are searched by words")
	}
	return rag.NewRetriever(rag.RetrieverConfig{Store: store, Embedder: vectors, Log: log,
		Method: rag.Method(r.Search), Chunks: r.Chunks, Bytes: r.Bytes, Deadline: r.Deadline})
}

// checkIndexes sees whether the indexes can be searched with what is configured.
func checkIndexes(ctx context.Context, cfg config.Config) (_ string, err error) {
	if cfg.Retrieval.Search == config.SearchOff {
		return "off", nil
	}
	store, err := openIndexes(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	list, err := store.Indexes(ctx, agent.OrgID(localOrg))
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "none yet; 'aptix index DIR' makes one", nil
	}
	files, by := 0, string(cfg.Retrieval.Search)
	vectors, err := embedder(cfg)
	switch {
	case err != nil:
		return "", err
	case vectors == nil:
		by = "words only, since PostgreSQL keeps no vectors"
	}
	for _, x := range list {
		if vectors != nil && x.Embedder != vectors.Name() && cfg.Retrieval.Search != config.SearchLexical {
			return "", fmt.Errorf("index %q was built with embedder %s, and %s is configured; build it anew: aptix index --rebuild --name %s %s",
				x.Name, x.Embedder, vectors.Name(), x.Name, x.Root)
		}
		n, _, err := store.Count(ctx, x)
		if err != nil {
			return "", err
		}
		files += n
	}
	return fmt.Sprintf("%d with %d files, searched by %s", len(list), files, by), nil
}

// indexTime bounds what doctor asks of the indexes, which may be large.
const indexTime = 30 * time.Second
