package pipeline_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// withContents are a turn's files and a picture, of so many bytes each, with every
// character that JSON writes in its own way.
func withContents(u contract.UserTurn, size int) contract.UserTurn {
	line := "if a < b && c > \"d\" {\r\n\treturn `\\u00e9 é \u2028`\n}\n"
	text := strings.Repeat(line, size/len(line)) + strings.Repeat("`", 10)
	binary := strings.Repeat("\x00\xff\xfebin", size/6)
	u.InputArtifacts = []agent.Artifact{
		{RelativePath: "a.go", FileName: "a.go", Contents: text + "\x01", Origin: "ide", Language: "go"},
		{RelativePath: "b.txt", FileName: "b.txt", Contents: base64.StdEncoding.EncodeToString([]byte("b" + text)), Origin: "ide", Encoding: "base64"},
		{RelativePath: "c.bin", FileName: "c.bin", Contents: base64.StdEncoding.EncodeToString([]byte(binary)), Origin: "user", Encoding: "base64"},
	}
	u.ClipboardImages = []agent.Image{{ID: "i1", MimeType: "image/png", DataBase64: base64.StdEncoding.EncodeToString([]byte("\x89PNG" + binary))}}
	return u
}

// What a turn brings is stored once, though its request and the provider's refusal of
// it, the transcript and a later turn hold it again; and every request is read back to
// the byte, which Requests checks by the hash that it was journalled with.
func TestContents_AreStoredOnce(t *testing.T) {
	const size = 128 << 10
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One."}, llmtest.Reply{Text: "Two."}, llmtest.Reply{Text: "Three."}))
	for i := range 3 {
		u := withContents(userTurn("s1", fmt.Sprint("t", i), "Look."), size)
		if i == 2 {
			u = userTurn("s1", "t2", "And again.") // its request has all of it in the transcript
		}
		turn := r.run(pipeline.Execution{UserTurn: u})
		r.answer(turn)
		r.journal(turn)
		calls, err := r.pipeline.Requests(t.Context(), turn.Key)
		if err != nil {
			t.Fatal(err)
		}
		if i < 2 && (len(calls[0].Wire) < 4*size || len(calls[0].Canonical) < 2*size) {
			t.Errorf("turn %d sent %d bytes, want all contents in them", i, len(calls[0].Wire))
		}
	}
	if r.provider.Left() != 0 {
		t.Error("not all turns asked the model")
	}
	r.stop()
	info, err := os.Stat(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if contents := int64(4 * size); info.Size() > contents*3/2 {
		t.Errorf("the file has %d bytes for contents of %d", info.Size(), contents)
	}
}

// What a turn adds to the journal does not grow with the session, whether the provider
// remembers it or is sent all of it each time.
func TestJournal_TurnAddsTheSameInALongSession(t *testing.T) {
	for _, chain := range []bool{true, false} {
		t.Run(fmt.Sprint("chain=", chain), func(t *testing.T) {
			const turns = 60
			r := newRig(t, func(r *rig) { r.chain = chain }, withModel(t, replies(turns)...))
			size := func(i int) (bytes int) {
				turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", fmt.Sprintf("t%03d", i), "Say it once more.")})
				r.answer(turn)
				steps, err := r.store.Steps(t.Context(), turn.Key)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range steps {
					data, items, err := store.EncodeStep(s)
					if err != nil {
						t.Fatal(err)
					}
					bytes += len(data) + len(items)
				}
				return bytes
			}
			var early, late int
			for i := range turns {
				switch n := size(i); i {
				case 9:
					early = n
				case turns - 1:
					late = n
				}
			}
			if late > early+100 { // numbers have more digits by then
				t.Errorf("turn 10 adds %d bytes to the journal, turn %d adds %d", early, turns, late)
			}
		})
	}
}

func replies(n int) []llmtest.Reply {
	out := make([]llmtest.Reply, n)
	for i := range out {
		out[i] = llmtest.Reply{Text: "The same as before, word for word."}
	}
	return out
}
