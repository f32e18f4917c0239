package console

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// allowed are the elements that an answer may become, and their attributes.
var allowed = map[string][]string{
	"p": nil, "strong": nil, "em": nil, "del": nil, "br": nil, "hr": nil, "ul": nil, "li": nil, "blockquote": nil,
	"table": nil, "thead": nil, "tbody": nil, "tr": nil, "th": nil, "td": nil,
	"ol": {"start"}, "code": {"class"}, "pre": {"class"}, "h3": {"class"}, "span": {"class"}, "a": {"rel", "target", "href"},
}

// unexpected returns the first thing in a text of HTML that no answer may become; nothing
// when all is well.
func unexpected(text string) string {
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return ""
			}
			return z.Err().Error()
		case html.CommentToken, html.DoctypeToken:
			return "a comment or a doctype"
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			attributes, ok := allowed[tag.Data]
			if !ok {
				return fmt.Sprintf("element %s", tag.Data)
			}
			for _, a := range tag.Attr {
				if !slices.Contains(attributes, a.Key) {
					return fmt.Sprintf("%s on %s", a.Key, tag.Data)
				}
				if a.Key == "href" && !strings.HasPrefix(strings.ToLower(a.Val), "http://") && !strings.HasPrefix(strings.ToLower(a.Val), "https://") && !strings.HasPrefix(strings.ToLower(a.Val), "mailto:") {
					return "a link to " + a.Val
				}
			}
		}
	}
}
