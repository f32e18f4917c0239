package node

import (
	"context"
	"log/slog"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/pgindex"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

// OpenIndexes opens what keeps the indexes: a file beside the data file, or the database
// that several nodes share.
func OpenIndexes(ctx context.Context, cfg config.Config) (rag.Keeper, error) {
	if connection, ok := cfg.PostgreSQL(); ok {
		return pgindex.Open(ctx, connection)
	}
	return sqliteindex.New(cfg.IndexPath()), nil
}

// Embedder returns what makes vectors: an embeddings API when one is configured, and else
// the offline one. A whole folder goes to somebody else only when it was said so. Where
// indexes have no vectors it is nil.
func Embedder(cfg config.Config) (rag.Embedder, error) {
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
	vectors, err := Embedder(cfg)
	if err != nil {
		return nil, err
	}
	if vectors == nil {
		log.Info("indexes in PostgreSQL have no vectors; they are searched by words")
	}
	return rag.NewRetriever(rag.RetrieverConfig{Store: store, Embedder: vectors, Log: log,
		Method: rag.Method(r.Search), Chunks: r.Chunks, Bytes: r.Bytes, Deadline: r.Deadline})
}
