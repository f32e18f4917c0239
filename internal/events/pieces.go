package events

import (
	"slices"
	"strings"
)

// Pieces is a text in the pieces in which it came, kept close together: as strings of
// their own they would take several times what an open stream has shown. Adding and
// reading them allocates next to nothing, for whoever allocates while the collector runs
// has to help it, and a thousand streams that all do leave no time for anything else. The
// zero value is empty. A copy shares what was there, and may be gone on with instead of the
// original.
type Pieces struct {
	runs []*run
	n    int
}

// The first run has firstLength pieces and each of the others nextLength, but for the last.
// firstText is how much text the first one makes room for, in bytes; the others go by those
// before them, up to mostText. Few texts are long, and those that are go on for a while.
const (
	firstLength = 64
	nextLength  = 4 * firstLength
	firstText   = 256
	mostText    = 16 << 10
)

// run is some pieces that follow each other. Of a strings.Builder, what was read stays as it
// is, whatever is added.
type run struct {
	text strings.Builder
	ends []uint32 // where each piece ends in text; a text is far below 4 GiB
}

// place returns in which run a piece is, and where there.
func place(i int) (run, at int) {
	if i < firstLength {
		return 0, i
	}
	i -= firstLength
	return 1 + i/nextLength, i % nextLength
}

// Add appends a piece.
func (p *Pieces) Add(piece string) {
	n, at := place(p.n)
	if at == 0 {
		p.runs = append(p.runs[:n], newRun(p.runs[:n]))
	}
	r := p.runs[n]
	if len(r.ends) != at { // the original of this copy went on
		r = r.until(at)
		p.runs[n] = r
	}
	r.text.WriteString(piece)
	r.ends = append(r.ends, uint32(r.text.Len()))
	p.n++
}

// newRun returns a run to follow these.
func newRun(before []*run) *run {
	pieces, text := firstLength, firstText
	if n := len(before); n > 0 {
		last := before[n-1]
		pieces, text = nextLength, min(last.text.Len()*nextLength/len(last.ends), mostText)
	}
	r := &run{ends: make([]uint32, 0, pieces)}
	r.text.Grow(text)
	return r
}

// start returns where a piece begins in the text.
func (r *run) start(at int) uint32 {
	if at == 0 {
		return 0
	}
	return r.ends[at-1]
}

// until returns a run of its own of the pieces before one.
func (r *run) until(at int) *run {
	own := &run{ends: slices.Clone(r.ends[:at])}
	own.text.WriteString(r.text.String()[:r.start(at)])
	return own
}

// Len returns how many pieces there are.
func (p *Pieces) Len() int { return p.n }

// At returns the i-th piece, from 0 on.
func (p *Pieces) At(i int) string {
	n, at := place(i)
	r := p.runs[n]
	return r.text.String()[r.start(at):r.ends[at]]
}

// Strings returns all pieces, nil when there are none. They keep nothing else in memory.
func (p *Pieces) Strings() []string {
	if p.n == 0 {
		return nil
	}
	size := 0
	for i := range p.n {
		size += len(p.At(i))
	}
	var whole strings.Builder
	whole.Grow(size)
	out := make([]string, p.n)
	for i := range out {
		from := whole.Len()
		whole.WriteString(p.At(i))
		out[i] = whole.String()[from:]
	}
	return out
}
