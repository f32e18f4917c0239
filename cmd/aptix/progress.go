package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/aptixhq/aptix/internal/rag/folder"
)

// progress shows how far an update has come: as a bar on a terminal, as a line now and
// then elsewhere.
type progress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil where there is no terminal
	tell bool
}

// linesEvery is how many files lie between two lines of progress.
const linesEvery = 1000

func newProgress(out io.Writer) *progress { return &progress{out: out, tell: isTerminal(out)} }

func (p *progress) step(at folder.Progress) {
	switch {
	case p.tell && p.bar == nil:
		p.bar = progressbar.NewOptions(at.Files, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription("indexing"),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	case p.tell:
		_ = p.bar.Set(at.Done) // it is only shown
	case at.Done%linesEvery == 0:
		say(p.out, "%d of %d files", at.Done, at.Files)
	}
}

// end leaves the line of the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // it is only shown
	}
}

// waiting shows on a terminal that somebody is at work who does not tell how far he is, and
// for how long. Elsewhere it shows nothing.
func waiting(out io.Writer, what string) (over func()) {
	if !isTerminal(out) {
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetRenderBlankState(true), progressbar.OptionClearOnFinish())
	return func() { _ = bar.Finish() } // it is only shown
}
