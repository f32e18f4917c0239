package torture

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/failpoint"
)

// A process that dies between the commit that ends a turn and the delivery of what webhooks
// are told of it leaves the delivery to the next one.
func TestWebhook_DeliveredAfterAKill(t *testing.T) {
	got := make(chan *http.Request, 100)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		got <- r
	}))
	address := receiver.Listener.Addr().String()
	if err := receiver.Listener.Close(); err != nil { // nobody listens yet
		t.Fatal(err)
	}
	n := newNode(t, "http://127.0.0.1:9", filepath.Join(t.TempDir(), "ledger"), "APTIX_PROVIDER=demo", "APTIX_CONTINUITY=auto")
	if err := os.WriteFile(filepath.Join(n.dir, "aptix.yaml"), []byte("outbound: {allow: [127.0.0.1/32]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !n.start(string(failpoint.AfterSettle) + ":1") {
		t.Fatal("the server died before anything was asked of it")
	}
	c, err := client.New(client.Config{URL: n.url(""), Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	hook, err := c.CreateWebhook(t.Context(), client.NewWebhook{URL: "http://" + address + "/hook", Events: []string{"turn.completed"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(n.url("/v1/agent/execute"), "application/json", strings.NewReader(`{"sessionId":"s1","turnId":"t1","instruction":"hello"}`))
	if err == nil {
		_ = res.Body.Close()
	}
	select {
	case <-n.dead:
	case <-time.After(20 * time.Second):
		t.Fatal("the server did not die behind the end of the turn")
	}

	if receiver.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	receiver.Start()
	defer receiver.Close()
	n.start("")
	select {
	case m := <-got:
		body, _ := io.ReadAll(m.Body)
		if err := client.VerifyWebhook(hook.Secret, m.Header, body); err != nil {
			t.Error(err)
		}
		if want := `"sessionId":"s1","turnId":"t1"`; !strings.Contains(string(body), want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	case <-time.After(time.Minute): // the claim of the dead process holds for half of it
		list, err := c.Deliveries(t.Context(), hook.WebhookID, client.Page{})
		t.Fatalf("nothing came; deliveries %+v (error %v)\n%s", list.Data, err, n.stderr.tail())
	}
}
