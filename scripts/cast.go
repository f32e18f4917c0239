//go:build ignore

// Cast turns what scripts/record-chat has recorded into an asciicast and a still picture:
//
//	go run scripts/cast.go RECORDED DOCS
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const columns, rows = 96, 36

func main() {
	from, to := os.Args[1], os.Args[2]
	timing, out, screen := read(from, "timing"), read(from, "out"), read(from, "screen")
	write(to, "chat.cast", cast(timing, out))
	write(to, "chat.svg", still(screen))
}

// cast writes version 2 of the asciicast format. A character that was cut in two comes with
// its second half.
func cast(timing, out []byte) []byte {
	var b bytes.Buffer
	line := func(v any) {
		text, err := json.Marshal(v)
		check(err)
		b.Write(append(text, '\n'))
	}
	line(map[string]any{"version": 2, "width": columns, "height": rows, "title": "aptix chat in the repository of Aptix"})
	// script writes lines of its own around the output.
	_, out, _ = bytes.Cut(out, []byte("\n"))
	at, held := 0.0, []byte(nil)
	for s := bufio.NewScanner(bytes.NewReader(timing)); s.Scan(); {
		var delay float64
		var n int
		if _, err := fmt.Sscan(s.Text(), &delay, &n); err != nil || n > len(out) {
			break
		}
		at += delay
		piece := append(held, out[:n]...)
		out = out[n:]
		whole := len(piece)
		for whole > 0 && whole > len(piece)-utf8.UTFMax && !utf8.Valid(piece[:whole]) {
			whole--
		}
		held = bytes.Clone(piece[whole:])
		if whole > 0 {
			line([]any{math.Round(at*1000) / 1000, "o", string(piece[:whole])})
		}
	}
	return b.Bytes()
}

// still draws a screen as tmux has captured it.
func still(screen []byte) []byte {
	const high, edge, width = 19, 16, 810 // of a line, the edge, and 96 characters
	lines := strings.Split(strings.TrimRight(string(screen), "\n"), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="aptix chat shows what it would write before it asks">
<style>text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #dfe5ec; white-space: pre } .b { font-weight: bold } .d { fill: #93a0af } .r { fill: #ff9b92 } .g { fill: #67cf8d } .c { fill: #7fd3e6 }</style>
<rect width="100%%" height="100%%" rx="10" fill="#12161b"/>
`, width+2*edge, len(lines)*high+2*edge)
	class := ""
	for i, l := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d">`, edge, edge+i*high+14)
		for n, part := range strings.Split(l, "\x1b[") {
			if n > 0 {
				codes, rest, _ := strings.Cut(part, "m")
				part = rest
				for code := range strings.SplitSeq(codes, ";") {
					class = map[string]string{"1": "b", "2": "d", "31": "r", "32": "g", "36": "c"}[code]
				}
			}
			switch {
			case part == "":
			case class == "":
				b.WriteString(html.EscapeString(part))
			default:
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(part))
			}
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func read(folder, name string) []byte {
	text, err := os.ReadFile(filepath.Join(folder, name))
	check(err)
	return text
}

func write(folder, name string, text []byte) {
	check(os.WriteFile(filepath.Join(folder, name), text, 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
