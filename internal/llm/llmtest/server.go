package llmtest

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/aptixhq/aptix/internal/llm/wirecheck"
)

// Server is a Fake that listens. It fails its test on everything that Errors lists,
// at the moment when it happens, and logs the requests that it refuses.
type Server struct {
	*Fake
	// URL is the base URL of the API; it ends in /v1.
	URL string
}

// New starts a provider that answers with the replies, one for each request, and
// stops it when the test ends.
func New(t testing.TB, script ...Reply) *Server {
	t.Helper()
	f := NewFake(script...)
	for _, err := range f.Errors() {
		t.Error(err)
	}
	f.report = func(err error) { t.Error(err) }
	f.note = func(s string) { t.Log(s) }
	noteSchema(t)
	srv := httptest.NewServer(f)
	t.Cleanup(func() {
		f.Close()
		srv.CloseClientConnections()
		srv.Close() // waits for the handlers, so none reports to a test that is over
	})
	return &Server{Fake: f, URL: srv.URL + "/v1"}
}

// noteSchema says, once for each provider, that requests are judged by half.
func noteSchema(t testing.TB) {
	t.Helper()
	switch err := wirecheck.Validate([]byte(`{}`)); {
	case !errors.Is(err, wirecheck.ErrNoSchema):
	case os.Getenv(wirecheck.RequireEnv) == "1":
		t.Errorf("%v, and %s=1 asks for it", err, wirecheck.RequireEnv)
	default:
		t.Log("WARNING:", err)
	}
}
