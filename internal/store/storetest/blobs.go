package storetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func blobTests() []test {
	return []test{
		{"ContentIsKeptOnce", contentOnce},
		{"ContentGoesWithItsLastSession", contentGoes},
		{"ContentOfARequestIsReadAsItWas", contentOfRequest},
	}
}

func contentOnce(t *testing.T, d *data) {
	binary := []byte{0, 1, 0xff, '\n', 0}
	n := userTurn(key("s1", "t1"), 0)
	n.Blobs = []agent.Blob{
		{SHA256: "h1", MimeType: "image/png", Data: binary},
		{SHA256: "h1", MimeType: "image/png", Data: binary}, // the same file twice in a turn
		{SHA256: "h2", MimeType: "text/plain"},              // an empty one
	}
	openTurn(t, d, n)
	again := userTurn(key("s2", "t1"), 0)
	again.Blobs = n.Blobs
	openTurn(t, d, again)
	d.reopen(t)
	for hash, want := range map[string][]byte{"h1": binary, "h2": nil} {
		got, err := d.Blob(t.Context(), org, hash)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %q (error %v), want %q", hash, got, err, want)
		}
	}
	_, err := d.Blob(t.Context(), org, "h3")
	wantKind(t, err, agent.KindNotFound)
}

func contentGoes(t *testing.T, d *data) {
	ctx := t.Context()
	open := func(o agent.OrgID, id agent.SessionID, hashes ...string) {
		n := userTurn(agent.TurnKey{Org: o, Session: id, Turn: "t1"}, 0)
		for _, h := range hashes {
			n.Blobs = append(n.Blobs, agent.Blob{SHA256: h, Data: []byte(h)})
		}
		openTurn(t, d, n)
	}
	open(org, "s1", "own", "shared")
	open(org, "s2", "shared")
	open(otherOrg, "s1", "own", "shared")
	has := func(when string, o agent.OrgID, hash string, want bool) {
		t.Helper()
		data, err := d.Blob(ctx, o, hash)
		if want && (err != nil || string(data) != hash) {
			t.Errorf("%s: %s of %s is gone: %v", when, hash, o, err)
		}
		if !want && agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("%s: %s of %s is still there (error %v)", when, hash, o, err)
		}
	}
	erase := func(o agent.OrgID, id agent.SessionID) {
		t.Helper()
		if err := d.DeleteSession(ctx, o, id); err != nil {
			t.Fatal(err)
		}
	}
	erase(org, "s1")
	has("after the first session", org, "own", false)
	has("after the first session", org, "shared", true)
	has("after the first session", otherOrg, "own", true)
	erase(org, "s2")
	has("after the second session", org, "shared", false)
	has("after the second session", otherOrg, "shared", true)
	erase(otherOrg, "s1")
	has("after the last session", otherOrg, "shared", false)
}

// A request repeats the contents that its turn has brought. However the store keeps
// that, steps and transcript are read byte for byte, in this turn and in a later one.
func contentOfRequest(t *testing.T, d *data) {
	text := strings.Repeat("func main() { println(\"<é>\") }\n", 500)
	canonical, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	item := json.RawMessage(`{"role":"user","content":` + string(canonical) + `}`)
	asked := func(n int) agent.Step {
		return agent.Step{N: n, Kind: agent.StepAsked, FirstEvent: int64(n), At: at(n).UTC().Truncate(time.Microsecond),
			Asked: &agent.Asked{Call: n - 1, Canonical: string(canonical), NewItems: []json.RawMessage{item}}}
	}
	answered := agent.Step{N: 4, Kind: agent.StepAnswered, FirstEvent: 4, At: at(4).UTC(),
		Answered: &agent.Answered{Call: 2, Items: []json.RawMessage{json.RawMessage(`{"said":"ok"}`)}}}
	n := userTurn(key("s1", "t1"), 0)
	n.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte(text)}}
	n.Steps = append(n.Steps, asked(2))
	openTurn(t, d, n)
	// The same request once more, as after a provider that refused it.
	appendSteps(t, d, store.Append{Key: key("s1", "t1"), State: agent.TurnRunning, Steps: []agent.Step{asked(3), answered}})
	settle(t, d, key("s1", "t1"), 4)
	d.reopen(t)
	steps, err := d.Steps(t.Context(), key("s1", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the journal", steps[1:4], []agent.Step{asked(2), asked(3), answered})
	turns, err := d.Transcript(t.Context(), org, "s1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the transcript", store.Items(turns), []json.RawMessage{item, answered.Answered.Items[0]})
}
