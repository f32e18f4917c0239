package console

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is how much of a text is taken for Markdown, in bytes. A longer one is shown
// as it is: what is nested on purpose takes the square of its length, a second at this one.
const maxMarkdown = 32 << 10

var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			// No alignment: it would be an inline style, which the policy refuses.
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), extension.Strikethrough,
		),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&tame{}, 1))),
	)
})

// markdown renders what a model wrote. Nothing of it becomes HTML that it spells out
// itself: that is shown as the text that it is. Images become links, since an image is a
// request to whoever the text names; links lead to the web or to a mailbox and nowhere else.
func markdown(text string) template.HTML {
	var b bytes.Buffer
	if len(text) <= maxMarkdown {
		if err := converter().Convert([]byte(text), &b); err == nil {
			return template.HTML(b.String()) // the renderers escape
		}
	}
	return template.HTML(`<pre class="plain">` + template.HTMLEscapeString(text) + `</pre>`)
}

// tame renders the nodes from which harm could come.
type tame struct{}

// RegisterFuncs names the nodes.
func (t *tame) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindLink, t.link)
	reg.Register(ast.KindAutoLink, t.autoLink)
	reg.Register(ast.KindImage, t.image)
	reg.Register(ast.KindRawHTML, t.rawHTML)
	reg.Register(ast.KindHTMLBlock, t.htmlBlock)
	reg.Register(ast.KindHeading, t.heading)
}

// safe reports whether a link may be followed.
func safe(destination string) bool {
	u, err := url.Parse(destination)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return true
	}
	return false
}

// openLink begins a link, or what stands for one that leads where none may.
func openLink(w util.BufWriter, destination string) {
	if !safe(destination) {
		_, _ = w.WriteString(`<span class="nolink">`)
		return
	}
	_, _ = w.WriteString(`<a rel="noopener noreferrer" target="_blank" href="`)
	_, _ = w.Write(util.EscapeHTML(util.URLEscape([]byte(destination), true)))
	_, _ = w.WriteString(`">`)
}

func closeLink(w util.BufWriter, destination string) {
	if safe(destination) {
		_, _ = w.WriteString("</a>")
		return
	}
	_, _ = w.WriteString("</span>")
}

func (*tame) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	destination := string(n.(*ast.Link).Destination)
	if entering {
		openLink(w, destination)
	} else {
		closeLink(w, destination)
	}
	return ast.WalkContinue, nil
}

func (*tame) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	destination := string(link.URL(source))
	if link.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(destination), "mailto:") {
		destination = "mailto:" + destination
	}
	openLink(w, destination)
	_, _ = w.Write(util.EscapeHTML(link.Label(source)))
	closeLink(w, destination)
	return ast.WalkContinue, nil
}

func (*tame) image(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	destination := string(n.(*ast.Image).Destination)
	if entering {
		openLink(w, destination)
		_, _ = w.WriteString("Image: ")
		return ast.WalkContinue, nil
	}
	if !n.HasChildren() {
		_, _ = w.Write(util.EscapeHTML([]byte(destination)))
	}
	closeLink(w, destination)
	return ast.WalkContinue, nil
}

func (*tame) rawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		segments := n.(*ast.RawHTML).Segments
		for i := range segments.Len() {
			segment := segments.At(i)
			html.DefaultWriter.RawWrite(w, segment.Value(source))
		}
	}
	return ast.WalkSkipChildren, nil
}

func (*tame) htmlBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := n.(*ast.HTMLBlock)
	_, _ = w.WriteString(`<pre class="plain">`)
	lines := block.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		html.DefaultWriter.RawWrite(w, line.Value(source))
	}
	if block.HasClosure() {
		html.DefaultWriter.RawWrite(w, block.ClosureLine.Value(source))
	}
	_, _ = w.WriteString("</pre>\n")
	return ast.WalkContinue, nil
}

// heading puts every heading of an answer right below that of its turn: a model skips
// levels as it likes, and whoever reads by headings is lost then.
func (*tame) heading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = fmt.Fprintf(w, `<h3 class="level%d">`, n.(*ast.Heading).Level)
	} else {
		_, _ = w.WriteString("</h3>\n")
	}
	return ast.WalkContinue, nil
}
