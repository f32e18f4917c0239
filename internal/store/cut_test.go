package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// everyCharacter has all of ASCII and what JSON treats in a way of its own.
func everyCharacter() string {
	var b strings.Builder
	for c := range 0x80 {
		b.WriteByte(byte(c))
	}
	return b.String() + "é\u2027\u2028\u2029\u202a\u20a8\ufffd\U0001f600" + `<<<\u2028 \\" &amp;`
}

func blob(name, data string) agent.Blob { return agent.Blob{SHA256: name, Data: []byte(data)} }

func lookup(blobs ...agent.Blob) func(string) ([]byte, error) {
	return func(sha string) ([]byte, error) {
		for _, b := range blobs {
			if b.SHA256 == sha {
				return b.Data, nil
			}
		}
		return nil, fmt.Errorf("no %s", sha)
	}
}

// asJSON is a value as the canonical and the wire request hold it.
func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// asked is a step whose request carries these texts and pictures.
func asked(t testing.TB, texts, pictures []string) agent.Step {
	t.Helper()
	canonical := asJSON(t, map[string]any{"input": texts})
	var items []json.RawMessage
	for _, text := range texts {
		items = append(items, asJSON(t, map[string]string{"text": "before " + text + " after"}))
	}
	for _, p := range pictures {
		items = append(items, asJSON(t, map[string]string{"url": "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(p))}))
	}
	return agent.Step{N: 2, Kind: agent.StepAsked, Asked: &agent.Asked{Call: 1, Canonical: string(canonical), NewItems: items}}
}

// cutAndMend stores a step and reads it again; it returns what was stored.
func cutAndMend(t testing.TB, step agent.Step, blobs ...agent.Blob) (dataRest, itemsRest, note []byte) {
	t.Helper()
	data, items, err := store.EncodeStep(step)
	if err != nil {
		t.Fatal(err)
	}
	dataRest, itemsRest, note, err = store.CutStep(data, items, blobs)
	if err != nil {
		t.Fatal(err)
	}
	holes, err := store.ReadHoles(note)
	if err != nil {
		t.Fatal(err)
	}
	gotData, err := store.Mend(dataRest, holes.Data, lookup(blobs...))
	if err != nil {
		t.Fatal(err)
	}
	gotItems, err := store.Mend(itemsRest, holes.Items, lookup(blobs...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(gotData, data) || !bytes.Equal(gotItems, items) {
		t.Fatalf("what is read differs from what was stored\nnote %s", note)
	}
	return dataRest, itemsRest, note
}

func TestCutStep_StoresContentsOnce(t *testing.T) {
	text := strings.Repeat(everyCharacter(), 100)
	picture := strings.Repeat("\x89PNG\x00\xff\xfe", 2000)
	for name, tt := range map[string]struct {
		texts, pictures []string
		blobs           []agent.Blob
		holes           int
	}{
		"a text":               {[]string{text}, nil, []agent.Blob{blob("t", text)}, 2},
		"a picture":            {nil, []string{picture}, []agent.Blob{blob("p", picture)}, 1},
		"both":                 {[]string{text}, []string{picture}, []agent.Blob{blob("p", picture), blob("t", text)}, 3},
		"the same text twice":  {[]string{text, text}, nil, []agent.Blob{blob("t", text)}, 4},
		"a text in another":    {[]string{text + text + "end", text}, nil, []agent.Blob{blob("t", text), blob("tt", text+text+"end")}, 4},
		"without its blob":     {[]string{text}, nil, nil, 0},
		"with another blob":    {[]string{text}, nil, []agent.Blob{blob("o", strings.ToUpper(text))}, 0},
		"a small one":          {[]string{text[:store.MinCut-1]}, nil, []agent.Blob{blob("s", text[:store.MinCut-1])}, 0},
		"as small as it gets":  {[]string{text[:store.MinCut]}, nil, []agent.Blob{blob("s", text[:store.MinCut])}, 2},
		"a text that is piled": {[]string{strings.Repeat("a", 3*store.MinCut)}, nil, []agent.Blob{blob("a", strings.Repeat("a", store.MinCut+1))}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			data, items, note := cutAndMend(t, asked(t, tt.texts, tt.pictures), tt.blobs...)
			holes, err := store.ReadHoles(note)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(holes.Data) + len(holes.Items); got != tt.holes {
				t.Errorf("%d holes, want %d", got, tt.holes)
			}
			if (note == nil) != (tt.holes == 0) {
				t.Errorf("note %q", note)
			}
			if tt.holes > 1 && name != "a text that is piled" && len(data)+len(items) > 1000 {
				t.Errorf("%d bytes are left beside the contents", len(data)+len(items))
			}
		})
	}
}

// Nothing in a text is read as a note, not even another step's note or its rest.
func TestCutStep_TextIsNeverANote(t *testing.T) {
	text := strings.Repeat("x", store.MinCut)
	data, items, note := cutAndMend(t, asked(t, []string{text}, nil), blob("t", text))
	hostile := strings.Repeat(string(note)+string(data)+string(bytes.ReplaceAll(items, []byte{0x1e}, nil)), 20)
	cutAndMend(t, asked(t, []string{hostile, string(note), text}, nil), blob("h", hostile), blob("t", text))
	cutAndMend(t, asked(t, []string{hostile, string(note), text}, nil), blob("t", text))
}

func TestMend_RefusesWhatDoesNotFit(t *testing.T) {
	text := strings.Repeat("x", 10)
	find := lookup(blob("t", text), blob("p", "\xff"))
	for name, holes := range map[string][]store.Hole{
		"behind the end":      {{At: 5, Len: 10, Form: store.FormJSON, SHA256: "t"}},
		"before the start":    {{At: -1, Len: 10, Form: store.FormJSON, SHA256: "t"}},
		"inside another":      {{At: 0, Len: 10, Form: store.FormJSON, SHA256: "t"}, {At: 5, Len: 10, Form: store.FormJSON, SHA256: "t"}},
		"of another length":   {{At: 0, Len: 11, Form: store.FormJSON, SHA256: "t"}},
		"in no form":          {{At: 0, Len: 10, Form: "rot13", SHA256: "t"}},
		"binary as text":      {{At: 0, Len: 1, Form: store.FormJSON, SHA256: "p"}},
		"of an unknown blob":  {{At: 0, Len: 10, Form: store.FormJSON, SHA256: "gone"}},
		"negative and huge":   {{At: -1 << 62, Len: 1 << 62, Form: store.FormBase64, SHA256: "t"}},
		"huge and negative 2": {{At: 1 << 62, Len: -1, Form: store.FormBase64, SHA256: "t"}},
	} {
		if got, err := store.Mend([]byte("rest"), holes, find); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
	if _, err := store.ReadHoles([]byte("{")); err == nil {
		t.Error("half a note is read")
	}
}

// Whatever a content is and whatever stands around it: what was stored is read.
func FuzzCut(f *testing.F) {
	f.Add(everyCharacter(), "a", "b")
	f.Add("\xff\x00", "", "\u2028")
	f.Add("\xe2\x80", "\\", "\xa8")
	f.Fuzz(func(t *testing.T, content, before, after string) {
		if content == "" {
			return
		}
		content = strings.Repeat(content, 1+store.MinCut/len(content))
		b := blob("c", content)
		cutAndMend(t, asked(t, []string{before + content + after, content}, []string{content}), b)
		cutAndMend(t, asked(t, []string{before, after}, []string{before + content}), b)
	})
}
