package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/blockyaml"
)

// maxDiffed bounds what is compared, in bytes of both texts.
const maxDiffed = 4 << 20

// readable writes JSON for reading: members in their order, prompts as the blocks of text
// that they are.
func readable(text string) string {
	if out, err := blockyaml.FromJSON([]byte(text)); err == nil {
		return string(out)
	}
	return text
}

// difference is how one text became another.
type difference struct {
	Title string
	// Added and Removed count lines.
	Added, Removed int64
	// Back is the page that it was asked for on.
	Back, BackName string
	Lines          []diffLine
	Same           bool
	TooLong        bool
}

// diffLine is a line of it. Kind is add, del, at or empty.
type diffLine struct{ Kind, Text string }

// compare finds the lines in which two texts differ.
func compare(fromName, from, toName, to string) difference {
	d := difference{Title: fromName + " → " + toName, Same: from == to, TooLong: len(from)+len(to) > maxDiffed}
	if d.Same || d.TooLong {
		return d
	}
	// The first lines name the texts, as the title does.
	_, text, _ := strings.Cut(string(diff.Diff("a", []byte(from), "b", []byte(to))), "+++ b\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		kind := ""
		switch {
		case strings.HasPrefix(line, "+"):
			kind = "add"
			d.Added++
		case strings.HasPrefix(line, "-"):
			kind = "del"
			d.Removed++
		case strings.HasPrefix(line, "@@"):
			kind = "at"
		}
		d.Lines = append(d.Lines, diffLine{kind, line})
	}
	return d
}

// formNames tell which form of two calls is compared.
var formNames = map[string]string{"canonical": ", canonical requests", "wire": ", as sent to the provider"}

// diffCalls shows what one model call of a turn says that another one does not.
func (c *Console) diffCalls(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	_, t, err := c.turnOf(r, by)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	var texts [2]string
	for i, name := range []string{"from", "to"} {
		call, err := c.call(r.Context(), t.Key, q.Get(name))
		if err != nil {
			return err
		}
		text, err := formOf(call, q.Get("form"))
		if err != nil {
			return err
		}
		texts[i] = readable(text)
	}
	d := compare("Call "+q.Get("from"), texts[0], "call "+q.Get("to"), texts[1])
	d.Title += formNames[q.Get("form")]
	d.Back, d.BackName = fmt.Sprintf("/sessions/%s/turns/%s", t.Key.Session, t.Key.Turn), "The turn"
	return c.show(w, r, http.StatusOK, page{Title: d.Title, Nav: "chat", Body: "diff", Data: d})
}

// diffModes shows how one mode differs from another.
func (c *Console) diffModes(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	var texts, names [2]string
	keys := [2]string{r.PathValue("key"), r.URL.Query().Get("to")}
	for i, key := range keys {
		m, err := c.modeOf(key)
		if err != nil {
			return err
		}
		body, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("write mode %s: %w", key, err)
		}
		texts[i], names[i] = readable(string(body)), m.DisplayName
	}
	d := compare(names[0], texts[0], names[1], texts[1])
	d.Back, d.BackName = "/modes/"+keys[0], "The mode"
	return c.show(w, r, http.StatusOK, page{Title: d.Title, Nav: "modes", Body: "diff", Data: d})
}
