package console

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMarkdown holds row S-28 of docs/security.md.
func TestMarkdown(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"text", "a **b** `c` ~~d~~", "<p>a <strong>b</strong> <code>c</code> <del>d</del></p>\n"},
		{"heading", "# a\n### b", "<h3 class=\"level1\">a</h3>\n<h3 class=\"level3\">b</h3>\n"},
		{"table without inline style", "|a|\n|:-:|\n|b|", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table>\n"},
		{"web link", "[a](https://x.example/?a=1&b=2 \"t\")", "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"https://x.example/?a=1&amp;b=2\">a</a></p>\n"},
		{"mail", "<a@x.example>", "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"mailto:a@x.example\">a@x.example</a></p>\n"},
		{"image", "![a](http://x.example/p.png)", "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"http://x.example/p.png\">Image: a</a></p>\n"},
		{"image without text", "![](http://x.example/p.png)", "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"http://x.example/p.png\">Image: http://x.example/p.png</a></p>\n"},
		{"script link", "[a](javascript:alert(1))", "<p><span class=\"nolink\">a</span></p>\n"},
		{"script link, spelled otherwise", "[a](JaVa&#115;cript:alert(1))", "<p><span class=\"nolink\">a</span></p>\n"},
		{"script auto link", "<javascript:alert(1)>", "<p><span class=\"nolink\">javascript:alert(1)</span></p>\n"},
		{"data image", "![a](data:image/svg+xml,x)", "<p><span class=\"nolink\">Image: a</span></p>\n"},
		{"link into the console", "[a](/sign-out) [b](//x.example) [c](x)", "<p><span class=\"nolink\">a</span> <span class=\"nolink\">b</span> <span class=\"nolink\">c</span></p>\n"},
		{"web link without a host", "[a](http:///x)", "<p><span class=\"nolink\">a</span></p>\n"},
		{"HTML in a line", "a <b onclick=x>c</b>", "<p>a &lt;b onclick=x&gt;c&lt;/b&gt;</p>\n"},
		{"a block of HTML", "<script>\nx\n</script>", "<pre class=\"plain\">&lt;script&gt;\nx\n&lt;/script&gt;</pre>\n"},
		{"fence", "```js\"onx=1\n<i>\n```", "<pre><code class=\"language-js&quot;onx=1\">&lt;i&gt;\n</code></pre>\n"},
		{"quotes in a destination", "<https://x.example/\"onx=\"y>", "<p><a rel=\"noopener noreferrer\" target=\"_blank\" href=\"https://x.example/%22onx=%22y\">https://x.example/&quot;onx=&quot;y</a></p>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(markdown(tt.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMarkdown_TooLongIsShownAsItIs(t *testing.T) {
	got := string(markdown("<b>" + strings.Repeat("*a* ", maxMarkdown)))
	if !strings.HasPrefix(got, `<pre class="plain">&lt;b&gt;*a*`) {
		t.Errorf("got %.60s", got)
	}
}

// Nothing that is nested as deeply as it likes takes the server down.
func TestMarkdown_Depth(t *testing.T) {
	for _, in := range []string{strings.Repeat(">", 20_000), strings.Repeat("[", 20_000), strings.Repeat("- ", 5_000) + "a", strings.Repeat("*a_", 20_000), strings.Repeat("![", 5_000) + strings.Repeat("](x)", 5_000)} {
		if markdown(in+"\n\nlast") == "" {
			t.Errorf("%.10s: nothing came out", in)
		}
	}
}

// FuzzMarkdown holds every text to the few elements and attributes that the pages allow.
func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"<img src=x onerror=1>", "[a](javascript:x)", "![a](x \"t\")", "<a@b.c>", "```x\ny", "|a|\n|-|\n|<svg>|", "[a]: <javascript:x>\n[a]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if bad := unexpected(string(markdown(text))); bad != "" {
			t.Errorf("%q gives %s", text, bad)
		}
	})
}
