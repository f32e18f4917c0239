package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// List is one page of a collection.
type List[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"hasMore" doc:"Whether a further page exists."`
	// NextCursor is absent on the last page.
	NextCursor string `json:"nextCursor,omitempty" doc:"Send it as ?cursor= for the further page. Opaque."`
}

// listOf maps a page of domain values to their views.
func listOf[D, V any](data []D, next string, view func(D) V) List[V] {
	l := List[V]{Data: make([]V, 0, len(data)), HasMore: next != "", NextCursor: next}
	for _, d := range data {
		l.Data = append(l.Data, view(d))
	}
	return l
}

// marshal renders v without HTML escapes and without a trailing newline, so that
// text reads in an answer as it was written.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := marshal(v)
	if err != nil {
		return err
	}
	return writeBody(w, status, "application/json", body)
}

// writeBody answers with bytes as they are. A body that cannot be written is not an
// error: the client is gone.
func writeBody(w http.ResponseWriter, status int, mediaType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// Waits that we ask of a client when the error names none.
const (
	retryDraining    = 2 * time.Second
	retryRateLimited = time.Second // the shortest there is: when a stream closes nobody knows
)

// retryAfter returns how long the client should wait before it tries again, zero
// when waiting does not help.
func retryAfter(err error, kind agent.Kind) time.Duration {
	if e := (*agent.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	switch kind {
	case agent.KindDraining:
		return retryDraining
	case agent.KindRateLimited:
		return retryRateLimited
	}
	return 0
}
