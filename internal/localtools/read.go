package localtools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

type readArgs struct {
	Path      string `json:"path"`
	StartLine int    `json:"startLine"`
	EndLine   int    `json:"endLine"`
}

type readResult struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	StartLine int    `json:"startLine"`
	// EndLine is the last line in Content, StartLine-1 when there is none.
	EndLine int    `json:"endLine"`
	Content string `json:"content"`
	// More tells that the file goes on after EndLine.
	More bool `json:"more"`
	// Cut tells that the last line was too long to be returned whole.
	Cut bool `json:"cut,omitempty"`
}

func (t *Tools) readFile() localTool {
	return localTool{
		Definition: Definition{
			Name: "read_file",
			Description: fmt.Sprintf("Reads a text file of the user's project directory, or some of its lines. At most %d KiB come back at once; "+
				"when the result says that there is more, go on at the line after endLine.", t.limits.ReadBytes>>10),
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"File to read, relative to the project directory."},` +
				`"startLine":{"type":"integer","minimum":1,"description":"First line to read; 1 when left out."},` +
				`"endLine":{"type":"integer","minimum":1,"description":"Last line to read; the end of the file when left out."}},` +
				`"required":["path"],"additionalProperties":false}`),
		},
		prepare: func(raw []byte) (Action, error) {
			a, err := arguments[readArgs](raw)
			if err != nil {
				return Action{}, err
			}
			if a.Path == "" {
				return Action{}, errors.New("read_file needs a path")
			}
			if a.Path, err = local(a.Path); err != nil {
				return Action{}, err
			}
			if a.StartLine < 0 || a.EndLine < 0 || a.EndLine > 0 && a.EndLine < a.StartLine {
				return Action{}, fmt.Errorf("lines %d to %d are no range; lines count from 1", a.StartLine, a.EndLine)
			}
			a.StartLine = max(a.StartLine, 1)
			return Action{run: func(ctx context.Context) (any, error) {
				out, err := t.read(ctx, a)
				if err != nil {
					return nil, failed("read", a.Path, err)
				}
				return out, nil
			}}, nil
		},
	}
}

func (t *Tools) read(ctx context.Context, a readArgs) (readResult, error) {
	f, info, err := regular(t.root, a.Path)
	if err != nil {
		return readResult{}, err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(io.LimitReader(f, t.limits.ScanBytes), sniff)
	if head, _ := r.Peek(sniff); binary(head) {
		return readResult{}, errors.New("it is a binary file")
	}

	out := readResult{Path: a.Path, Size: info.Size(), StartLine: a.StartLine, EndLine: a.StartLine - 1}
	var content strings.Builder
	var scanned int64
	for line := 1; ; line++ {
		if ctx.Err() != nil {
			return out, fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
		wanted := line >= a.StartLine
		if wanted && a.EndLine > 0 && line > a.EndLine {
			_, err := r.Peek(1)
			out.More = err == nil
			break
		}
		keep := 0
		if wanted {
			keep = t.limits.ReadBytes - content.Len()
		}
		text, size, err := readLine(r, keep)
		scanned += size
		if err != nil && !errors.Is(err, io.EOF) {
			return out, err
		}
		if size == 0 { // the end
			switch {
			case scanned >= t.limits.ScanBytes:
				return out, fmt.Errorf("line %d lies beyond the first %d MiB, which is as far as read_file goes", a.StartLine, t.limits.ScanBytes>>20)
			case !wanted && line > 1:
				return out, fmt.Errorf("it has only %d lines", line-1)
			}
			break
		}
		if !wanted {
			continue
		}
		if int64(len(text)) < size { // does not fit any more
			out.More = true
			if content.Len() == 0 {
				content.WriteString(wholeRunes(text))
				out.EndLine, out.Cut = line, true
			}
			break
		}
		content.WriteString(text)
		out.EndLine = line
	}
	out.Content = strings.ToValidUTF8(content.String(), "\ufffd")
	return out, nil
}

// readLine returns the next line with its end, at most the first keep bytes of it, and
// how long it is.
func readLine(r *bufio.Reader, keep int) (string, int64, error) {
	var text []byte
	var size int64
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		text = append(text, part[:min(len(part), keep-len(text))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(text), size, err
		}
	}
}
