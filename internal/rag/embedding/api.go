package embedding

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/secret"
)

// APIConfig says where an embeddings API is. BaseURL and Model are required; zero fields
// mean the default.
type APIConfig struct {
	// BaseURL is the API's root, /v1 included.
	BaseURL string
	Model   string
	// Key is sent as the bearer token; without one no token is sent.
	Key secret.Text
	// Batch is how many texts go into one request; 64.
	Batch int
	// Timeout bounds one request; 30 s.
	Timeout time.Duration
	// Attempts is how often a request is sent at most; 3.
	Attempts int
	// Backoff is the pause before the second attempt, which doubles; 500 ms. MaxWait is
	// the longest one; 30 s.
	Backoff, MaxWait time.Duration
	// Transport carries the requests, by default to BaseURL and nowhere else.
	Transport http.RoundTripper
}

// API embeds with the embeddings API of a provider (POST /embeddings). It is safe for
// concurrent use.
type API struct {
	endpoint, model string
	key             secret.Text
	batch           int
	timeout         time.Duration
	http            *http.Client
	retry           failsafe.Executor[[][]float32]
}

// NewAPI returns an API, or an error when the configuration lacks something.
func NewAPI(c APIConfig) (*API, error) {
	if c.BaseURL == "" || c.Model == "" {
		return nil, errors.New("embedding: BaseURL and Model are required")
	}
	transport := c.Transport
	if transport == nil {
		transport = outbound.NewTransport(outbound.Policy{Configured: []string{c.BaseURL}})
	}
	maxWait := cmp.Or(c.MaxWait, 30*time.Second)
	return &API{
		endpoint: strings.TrimRight(c.BaseURL, "/") + "/embeddings", model: c.Model, key: c.Key,
		batch: cmp.Or(c.Batch, 64), timeout: cmp.Or(c.Timeout, 30*time.Second),
		http: &http.Client{Transport: transport, CheckRedirect: outbound.Stay},
		// An embedding changes nothing at the provider, so whatever may pass is tried again.
		retry: failsafe.With(retrypolicy.NewBuilder[[][]float32]().
			HandleIf(func(_ [][]float32, err error) bool { return passing(err) }).
			WithBackoff(cmp.Or(c.Backoff, 500*time.Millisecond), maxWait+1).
			WithDelayFunc(func(x failsafe.ExecutionAttempt[[][]float32]) time.Duration {
				return min(retryAfter(x.LastError()), maxWait)
			}).
			WithMaxAttempts(cmp.Or(c.Attempts, 3)).
			ReturnLastFailure().
			Build()),
	}, nil
}

// Name implements rag.Embedder: vectors of one model can be compared, whoever serves it.
func (a *API) Name() string { return a.model }

// Embed implements rag.Embedder, batch by batch. All vectors have the same length.
func (a *API) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	var out [][]float32
	for batch := range slices.Chunk(texts, a.batch) {
		vectors, err := a.retry.WithContext(ctx).Get(func() ([][]float32, error) { return a.post(ctx, batch) })
		if err != nil {
			return nil, fmt.Errorf("embed %d texts with %s: %w", len(batch), a.model, err)
		}
		out = append(out, vectors...)
	}
	for _, v := range out {
		if len(v) != len(out[0]) {
			return nil, fmt.Errorf("embed with %s: it gave vectors of %d and of %d numbers", a.model, len(out[0]), len(v))
		}
	}
	return out, nil
}

// maxAnswer bounds one answer: 64 texts with 4096 numbers, written out, are 6 MB.
const maxAnswer = 64 << 20

// post sends one request.
func (a *API) post(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": a.model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "aptix")
	if !a.key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+a.key.Reveal())
	}
	res, err := a.http.Do(req)
	if err != nil {
		return nil, &droppedError{err}
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, refusal(res)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &droppedError{err}
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return vectors(answer, len(texts))
}

// vectors reads an answer: one vector of numbers for each of n texts, each once.
func vectors(answer []byte, n int) ([][]float32, error) {
	var list struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, errors.New("the answer is no list of embeddings; does the address end in /v1?")
	}
	if len(list.Data) != n {
		return nil, fmt.Errorf("the answer has %d embeddings for %d texts", len(list.Data), n)
	}
	out := make([][]float32, n)
	for _, d := range list.Data {
		switch {
		case d.Index < 0 || d.Index >= n || out[d.Index] != nil:
			return nil, fmt.Errorf("the answer has a wrong or repeated index %d", d.Index)
		case len(d.Embedding) == 0 || len(d.Embedding) > maxDimension:
			return nil, fmt.Errorf("the answer has an embedding of %d numbers; 1 to %d can be kept", len(d.Embedding), maxDimension)
		case slices.ContainsFunc(d.Embedding, func(f float64) bool { return math.Abs(f) > 1e6 }):
			return nil, errors.New("the answer has an embedding out of all bounds")
		}
		out[d.Index] = normalised(d.Embedding)
	}
	return out, nil
}

// maxDimension is the longest vector that a store keeps.
const maxDimension = 8192

// statusError is a refusal by the API. What it says is not repeated: it may repeat the
// key or the texts.
type statusError struct {
	status int
	after  time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the embeddings API answers %d %s", e.status, http.StatusText(e.status))
}

func refusal(res *http.Response) *statusError {
	e := &statusError{status: res.StatusCode}
	if s, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil {
		e.after = time.Duration(s) * time.Second
	}
	return e
}

// droppedError is a connection that did not come about, or broke.
type droppedError struct{ err error }

func (e *droppedError) Error() string { return e.err.Error() }
func (e *droppedError) Unwrap() error { return e.err }

// passing reports whether another attempt may not meet the fault.
func passing(err error) bool {
	if s := (*statusError)(nil); errors.As(err, &s) {
		switch s.status {
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
			return true
		}
		return s.status >= 500
	}
	return errors.As(err, new(*droppedError))
}

// retryAfter is how long the API asks to wait; -1 when it does not, which leaves it to
// the backoff.
func retryAfter(err error) time.Duration {
	if s := (*statusError)(nil); errors.As(err, &s) && s.after > 0 {
		return s.after
	}
	return -1
}
