package torture

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// A turn runs on one node and is followed on another; its node is killed in the middle of
// the text. The one stream of the reader goes on to the end, without a gap, and repeats
// nothing but what it was told is void.
func TestFleet_FollowedElsewhere(t *testing.T) {
	f := newFleet(t, 2, cluster.Database(t), cluster.Socket)
	owner, other := f.members[0], f.members[1]
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	sender := &worker{site: owner, client: &http.Client{}, session: "s1"}
	go func() {
		// It breaks off with its node, and the turn goes on without it.
		if res, err := sender.post(ctx, "/v1/agent/execute", map[string]any{"sessionId": "s1", "turnId": "t1", "instruction": "plan=long", "stream": true}); err == nil {
			_ = res.Body.Close()
		}
	}()
	reader := &worker{site: other, client: &http.Client{}, session: "s1"}
	res, err := reader.follow(ctx, "t1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()

	kinds, next, resumed, killed := map[int64]string{}, int64(1), int64(0), false
	for n, e := range parse(res.Body) {
		if from, void := replaced(e); void && from == n {
			resumed, next = n, n
		}
		if n != next {
			t.Fatalf("event %d, %s, comes where %d should; before it: %v", n, e.kind, next, kinds)
		}
		kinds[n], next = e.kind, n+1
		if n == 10 && !killed {
			killed = true
			owner.kill()
		}
		if e.kind == "turn.completed" {
			if !killed || resumed == 0 {
				t.Errorf("the turn ended without being taken over: %v", kinds)
			}
			t.Logf("%d events; killed behind the 10th, taken up again at %d", n, resumed)
			return
		}
	}
	t.Errorf("the stream ended before the turn: %v; the node says:\n%s", kinds, other.stderr.tail())
}

// follow opens the events of a turn as soon as there are any.
func (w *worker) follow(ctx context.Context, turn string) (*http.Response, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.site.url("/v1/sessions/"+w.session+"/turns/"+turn+"/events"), nil)
		if err != nil {
			return nil, err
		}
		res, err := w.client.Do(req)
		if err != nil || res.StatusCode == http.StatusOK {
			return res, err
		}
		_ = res.Body.Close() // it is not there yet
		time.Sleep(10 * time.Millisecond)
	}
}
