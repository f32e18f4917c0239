package localtools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

type searchArgs struct {
	Query      string `json:"query"`
	Regexp     bool   `json:"regexp"`
	IgnoreCase bool   `json:"ignoreCase"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
}

type searchResult struct {
	Matches []found `json:"matches"`
	// More tells that the search stopped before it had seen everything, and Why says why.
	More bool   `json:"more"`
	Why  string `json:"why,omitempty"`
	// Searched and Skipped count files; binary and very large ones are skipped.
	Searched int `json:"searchedFiles"`
	Skipped  int `json:"skippedFiles"`
}

type found struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// maxLine bounds the text of a match.
const maxLine = 300

func (t *Tools) searchFiles() localTool {
	return localTool{
		Definition: Definition{
			Name: "search_files",
			Description: fmt.Sprintf("Searches the text files of the user's project directory, line by line. At most %d matches come back; "+
				"narrow the search when there are more. The folder .git, binary files and symbolic links are passed over.", t.limits.Matches),
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"query":{"type":"string","minLength":1,"description":"Text to look for."},` +
				`"regexp":{"type":"boolean","description":"Whether query is a regular expression (RE2 syntax)."},` +
				`"ignoreCase":{"type":"boolean","description":"Whether upper and lower case are the same."},` +
				`"path":{"type":"string","description":"Folder or file to search; the project directory itself when left out."},` +
				`"glob":{"type":"string","description":"Only files that match: *.go by name, src/**/*.go by path below the folder."}},` +
				`"required":["query"],"additionalProperties":false}`),
		},
		prepare: func(raw []byte) (Action, error) {
			a, err := arguments[searchArgs](raw)
			if err != nil {
				return Action{}, err
			}
			re, err := a.compile()
			if err != nil {
				return Action{}, err
			}
			name, err := local(a.Path)
			if err != nil {
				return Action{}, err
			}
			match, err := newGlob(a.Glob)
			if err != nil {
				return Action{}, err
			}
			return Action{run: func(ctx context.Context) (any, error) {
				s := search{tools: t, re: re, match: match, out: searchResult{Matches: []found{}}}
				if err := s.run(ctx, name); err != nil {
					return nil, failed("search", name, err)
				}
				return s.out, nil
			}}, nil
		},
	}
}

func (a searchArgs) compile() (*regexp.Regexp, error) {
	if a.Query == "" || len(a.Query) > maxPath {
		return nil, fmt.Errorf("search_files needs a query of 1 to %d bytes", maxPath)
	}
	expr := a.Query
	if !a.Regexp {
		expr = regexp.QuoteMeta(expr)
	}
	if a.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("the query is no regular expression: %w", err)
	}
	return re, nil
}

// search is one search in progress.
type search struct {
	tools *Tools
	re    *regexp.Regexp
	match glob
	bytes int64 // content looked at so far
	out   searchResult
}

func (s *search) run(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.tools.limits.SearchTime, errTooLong)
	defer cancel()
	info, err := s.tools.root.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.stopped(s.file(ctx, name))
	}
	return s.stopped(s.tools.walk(ctx, name, true, func(rel string, d fs.DirEntry) error {
		if !d.Type().IsRegular() || !s.match.matches(rel) {
			return nil
		}
		return s.file(ctx, path.Join(name, rel))
	}))
}

var (
	errEnough  = errors.New("there are more matches")
	errTooLong = errors.New("the search took too long")
)

// stopped turns a bound that was met into a part of the result.
func (s *search) stopped(err error) error {
	for _, bound := range []error{errEnough, errTooMany, errTooLong} {
		if errors.Is(err, bound) {
			s.out.More, s.out.Why = true, bound.Error()
			return nil
		}
	}
	return err
}

// file searches one file. What cannot be read is skipped.
func (s *search) file(ctx context.Context, name string) error {
	f, info, err := regular(s.tools.root, name)
	if err != nil {
		s.out.Skipped++
		return nil
	}
	defer func() { _ = f.Close() }()
	if info.Size() > s.tools.limits.SearchFile {
		s.out.Skipped++
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(f, s.tools.limits.SearchFile))
	if err != nil || binary(content[:min(len(content), sniff)]) {
		s.out.Skipped++
		return nil
	}
	if s.bytes += int64(len(content)); s.bytes > s.tools.limits.SearchBytes {
		return errTooMany
	}
	s.out.Searched++
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line = bytes.TrimRight(line, "\r\n")
		at := s.re.FindIndex(line)
		if at == nil {
			continue
		}
		if len(s.out.Matches) >= s.tools.limits.Matches {
			return errEnough
		}
		s.out.Matches = append(s.out.Matches, found{Path: name, Line: n, Text: around(string(line), at[0])})
	}
	return nil
}

// around returns a line, or as much of it as is bounded and holds what was found.
func around(line string, at int) string {
	line = strings.ToValidUTF8(line, "?")
	if len(line) <= maxLine {
		return line
	}
	if from := at - maxLine/3; from > 0 {
		return "…" + cut(strings.ToValidUTF8(line[min(from, len(line)):], ""), maxLine) + "…"
	}
	return cut(line, maxLine) + "…"
}
