package mcp

import (
	"bytes"
	"log/slog"
	"time"
)

const (
	// maxLine is how much of a line of stderr the log gets, and maxLines how many lines
	// in linesTime.
	maxLine   = 1 << 10
	maxLines  = 50
	linesTime = 10 * time.Second
)

// lineLog takes what a child writes to stderr into the log, line by line, so much of it
// that neither side is hurt by a flood. One goroutine writes to it.
type lineLog struct {
	log *slog.Logger
	// conceal masks what the log must not show.
	conceal func(string) string
	line    []byte
	since   time.Time // the beginning of the time in which lines are counted
	lines   int
}

// Write takes all of b, so that the child never waits.
func (l *lineLog) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		// Twice of it, so that a secret is seen whole before the line is cut.
		if room := 2*maxLine - len(l.line); room > 0 {
			l.line = append(l.line, part[:min(room, len(part))]...)
		}
		if whole {
			l.say()
		}
	}
	return len(b), nil
}

func (l *lineLog) say() {
	line := l.conceal(string(bytes.TrimSpace(l.line)))
	line = line[:min(maxLine, len(line))]
	l.line = l.line[:0]
	if now := time.Now(); now.Sub(l.since) > linesTime {
		if left := l.lines - maxLines; left > 0 {
			l.log.Warn("MCP server wrote more to stderr than the log takes", "linesLeftOut", left)
		}
		l.since, l.lines = now, 0
	}
	if l.lines++; l.lines <= maxLines && line != "" {
		l.log.Info("MCP server says", "stderr", line)
	}
}
