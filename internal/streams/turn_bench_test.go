package streams

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aptixhq/aptix/bench/mock"
)

// BenchmarkTurn is a whole turn: sent over a connection, journalled in a data file, asked
// of a model that answers at once, streamed to its end. What the client and the model
// take is in the figures. A session has ten turns.
func BenchmarkTurn(b *testing.B) {
	model, err := mock.New(mock.Config{})
	if err != nil {
		b.Fatal(err)
	}
	answers := httptest.NewServer(model)
	defer answers.Close()
	r := newRig(b, options{model: answers.URL + "/v1"})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		resp, err := client.Do(r.request(b, "POST", "/v1/agent/execute",
			fmt.Sprintf(`{"sessionId":"s%d","turnId":"t%d","instruction":"What can you do?","stream":true}`, i/10, i)))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
		if err != nil || resp.StatusCode != http.StatusOK || n < 1000 {
			b.Fatalf("%s with %d bytes: %v", resp.Status, n, err)
		}
	}
}
