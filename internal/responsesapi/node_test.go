package responsesapi_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// requireNode is the variable that, set to 1, turns a Node client that cannot run into
// a failure.
const requireNode = "APTIX_REQUIRE_NODE"

// A stock Node client holds a streamed conversation with tools; see
// testdata/node/conversation.mjs.
func TestNodeClient(t *testing.T) {
	dir := filepath.Join("testdata", "node")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules", "openai"))
	}
	if err != nil {
		if os.Getenv(requireNode) == "1" {
			t.Fatalf("%v, and %s=1 asks for it", err, requireNode)
		}
		t.Skipf("WARNING: OpenAI's Node client is not there: %v; scripts/test installs it where npm is", err)
	}
	r := newRig(t,
		changeMode("ddr_authoring"),
		llmtest.Reply{Text: "Let me look.", Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather", Arguments: `{"city":"Oslo"}`}}},
		llmtest.Reply{Text: "It is cold in Oslo."},
		llmtest.Reply{Text: "You are welcome."},
	)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "conversation.mjs")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BASE_URL="+r.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, r.log)
	}
	if n := r.provider.Left(); n != 0 {
		t.Errorf("%d replies of the model were not asked for", n)
	}
}
