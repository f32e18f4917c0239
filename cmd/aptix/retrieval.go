package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
)

// localOrg is the organisation of whoever uses a server without authentication.
const localOrg = "local"

// checkIndexes sees whether the indexes can be searched with what is configured.
func checkIndexes(ctx context.Context, cfg config.Config) (_ string, err error) {
	if cfg.Retrieval.Search == config.SearchOff {
		return "off", nil
	}
	store, err := node.OpenIndexes(ctx, cfg)
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
	vectors, err := node.Embedder(cfg)
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
