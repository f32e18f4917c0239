package contract

import (
	"encoding/json"
	"errors"
	"github.com/aptixhq/aptix/internal/agent"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const storedBody = `{"sessionId":"s1","turnId":"t1","instruction":"<hi>","solutionContextText":"",
	"inputArtifacts":[
		{"relativePath":"a.txt","fileName":"a.txt","contents":"Man","origin":"ide","mimeType":"text/plain"},
		{"relativePath":"b.bin","fileName":"b.bin","contents":"TWFu","origin":"user","encoding":"base64"},
		{"relativePath":"c","fileName":"c","contents":"","origin":"user"}],
	"clipboardImages":[{"id":"i1","mimeType":"image/png","dataBase64":"AAE="}]}`

func TestStored_KeepsContentsByHash(t *testing.T) {
	u := accept(t, storedBody)
	before := u.SHA256()
	stored, blobs := u.Stored()
	want := `{"sessionId":"s1","turnId":"t1","instruction":"<hi>","inputArtifacts":[` +
		`{"relativePath":"a.txt","fileName":"a.txt","origin":"ide","mimeType":"text/plain","encoding":"utf8","sha256":"20fe1bd201cd900bdbffeaec0b42e40b51cbf6b37ae5fbeaddd83aab9a221837"},` +
		`{"relativePath":"b.bin","fileName":"b.bin","origin":"user","encoding":"base64","sha256":"20fe1bd201cd900bdbffeaec0b42e40b51cbf6b37ae5fbeaddd83aab9a221837"},` +
		`{"relativePath":"c","fileName":"c","origin":"user","encoding":"utf8","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],` +
		`"clipboardImages":[{"id":"i1","mimeType":"image/png","sha256":"b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2"}],"solutionContextText":""}`
	if diff := cmp.Diff(want, string(stored)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	wantBlobs := []agent.Blob{
		{SHA256: "20fe1bd201cd900bdbffeaec0b42e40b51cbf6b37ae5fbeaddd83aab9a221837", MimeType: "text/plain", Data: []byte("Man")},
		{SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Data: []byte{}},
		{SHA256: "b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2", MimeType: "image/png", Data: []byte{0, 1}},
	}
	if diff := cmp.Diff(wantBlobs, blobs); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
	if u.SHA256() != before || u.InputArtifacts[0].Contents != "Man" {
		t.Error("Stored changed the turn")
	}
}

func TestRestore_IsTheInverseOfStored(t *testing.T) {
	u := accept(t, storedBody)
	stored, blobs := u.Stored()
	got, err := Restore(stored, func(sha256 string) ([]byte, error) {
		for _, b := range blobs {
			if b.SHA256 == sha256 {
				return b.Data, nil
			}
		}
		return nil, errors.New("no such blob")
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(u, got); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	lost := errors.New("lost")
	if _, err := Restore(stored, func(string) ([]byte, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("error = %v, want %v", err, lost)
	}
	if _, err := Restore(json.RawMessage("{"), nil); err == nil {
		t.Error("a stored turn that is no JSON was restored")
	}
}

func TestDiffering_NamesTheMembers(t *testing.T) {
	stored := func(body string) json.RawMessage {
		s, _ := accept(t, body).Stored()
		return s
	}
	base := stored(storedBody)
	for _, tc := range []struct {
		other json.RawMessage
		want  []string
	}{
		{base, nil},
		{json.RawMessage(" " + strings.ReplaceAll(string(base), `","`, `", "`)), nil},
		{stored(strings.Replace(storedBody, "Man", "Men", 1)), []string{"inputArtifacts"}},
		{stored(strings.Replace(storedBody, "AAE=", "AAI=", 1)), []string{"clipboardImages"}},
		{stored(strings.Replace(storedBody, `"solutionContextText":""`, `"stream":false`, 1)), []string{"solutionContextText", "stream"}},
		{stored(userTurn(`"instruction":"ho"`)), []string{"clipboardImages", "inputArtifacts", "instruction", "solutionContextText"}},
	} {
		if diff := cmp.Diff(tc.want, Differing(base, tc.other)); diff != "" {
			t.Errorf("Differing(…, %s) (-want +got):\n%s", tc.other, diff)
		}
		if diff := cmp.Diff(tc.want, Differing(tc.other, base)); diff != "" {
			t.Errorf("Differing(%s, …) (-want +got):\n%s", tc.other, diff)
		}
	}
}
