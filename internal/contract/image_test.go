package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func images(list string) string { return userTurn(`"clipboardImages":[` + list + `]`) }

func image(id, mimeType, data string) string {
	return fmt.Sprintf(`{"id":"%s","mimeType":"%s","dataBase64":"%s"}`, id, mimeType, data)
}

func TestImage_Members(t *testing.T) {
	prove.Rule(t, "AGN034-4.3-a")
	got := accept(t, images(image("i1", "image/png", "AAAA")+","+image("paste 2", "image/webp", "AAA=")+`,{"Id":"i3","MimeType":"image/gif","DataBase64":"AA=="},`+image("i4", "image/jpeg", "AAAA"))).ClipboardImages
	want := []agent.Image{
		{ID: "i1", MimeType: "image/png", DataBase64: "AAAA"}, {ID: "paste 2", MimeType: "image/webp", DataBase64: "AAA="},
		{ID: "i3", MimeType: "image/gif", DataBase64: "AA=="}, {ID: "i4", MimeType: "image/jpeg", DataBase64: "AAAA"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	const at = "/clipboardImages/0/"
	refuse(t, images(`{}`), at+"id AGN034-4.3-a", at+"mimeType AGN034-4.3-a", at+"dataBase64 AGN034-4.3-a")
	refuse(t, images(`{"id":1,"mimeType":2,"dataBase64":3}`), at+"id AGN034-4.3-a", at+"mimeType AGN034-4.3-a", at+"dataBase64 AGN034-4.3-a")
	refuse(t, images(image("", "image/png", "AAAA")), at+"id AGN034-4.3-a")
	refuse(t, images(image(strings.Repeat("x", 129), "image/png", "AAAA")), at+"id APTIX-ids")
	refuse(t, images(image(`a\nb`, "image/png", "AAAA")), at+"id APTIX-ids")
	for _, mimeType := range []string{"", "image/svg+xml", "image/jpg", "IMAGE/PNG", "text/html", "image/png; x=y"} {
		refuse(t, images(image("i", mimeType, "AAAA")), at+"mimeType AGN034-4.3-a")
	}
	for _, data := range []string{"", "AAA", "A===", "data:image/png;base64,AAAA", "AA\\nAA", "-_-_"} {
		refuse(t, images(image("i", "image/png", data)), at+"dataBase64 AGN034-4.3-a")
	}
	refuse(t, images(image("i", "image/png", "AAAA")+","+image("i", "image/gif", "AAAB")), "/clipboardImages/1/id AGN034-4.3-a")
}

func TestImage_SaysNothingAboutItsOrigin(t *testing.T) {
	prove.Rule(t, "AGN034-4.3-b")
	for _, name := range []string{"origin", "relativePath", "fileName", "contents", "source", "url", "encoding"} {
		refuse(t, images(`{"id":"i","mimeType":"image/png","dataBase64":"AAAA","`+name+`":"ide"}`), "/clipboardImages/0/"+name+" APTIX-unknown-member")
	}
	u := accept(t, userTurn(`"clipboardImages":[`+image("a.png", "image/png", "AAAA")+`],"inputArtifacts":[{"relativePath":"a.png","fileName":"a.png","contents":"AAAA","origin":"ide","encoding":"base64"}]`))
	if len(u.InputArtifacts) != 1 || len(u.ClipboardImages) != 1 {
		t.Errorf("%d artifacts and %d images, want them kept apart", len(u.InputArtifacts), len(u.ClipboardImages))
	}
}

func TestImage_Limits(t *testing.T) {
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, image(fmt.Sprint(i), "image/png", "AAAA"))
		}
		return images(strings.Join(list, ","))
	}
	accept(t, many(20))
	refuse(t, many(21), "/clipboardImages APTIX-limits")
	refuseWithin(t, many(1), Limits{ArtifactBytes: 2}, "/clipboardImages/0/dataBase64 APTIX-limits")
}
