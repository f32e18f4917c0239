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

// runLength is how many pieces a run has, if it is not the last. firstText is how much
// text the first run makes room for, in bytes; later ones go by the one before them.
const (
	runLength = 64
	firstText = 256
)

// run is some pieces that follow each other. Of a strings.Builder, what was read stays as it
// is, whatever is added.
type run struct {
	text strings.Builder
	ends [runLength]uint32 // where each piece ends in text; a text is far below 4 GiB
}

// Add appends a piece.
func (p *Pieces) Add(piece string) {
	at := p.n % runLength
	if at == 0 {
		p.runs = append(p.runs[:p.n/runLength], newRun(p.runs))
	}
	r := p.runs[p.n/runLength]
	if end := r.start(at); int(end) != r.text.Len() { // the original of this copy went on
		r = r.until(at)
		p.runs = append(slices.Clip(p.runs[:p.n/runLength]), r)
	}
	r.text.WriteString(piece)
	r.ends[at] = uint32(r.text.Len())
	p.n++
}

// newRun returns a run to follow these.
func newRun(before []*run) *run {
	r, room := &run{}, firstText
	if n := len(before); n > 0 {
		room = before[n-1].text.Len()
	}
	r.text.Grow(room)
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
	own := &run{ends: r.ends}
	own.text.WriteString(r.text.String()[:r.start(at)])
	return own
}

// Len returns how many pieces there are.
func (p *Pieces) Len() int { return p.n }

// At returns the i-th piece, from 0 on.
func (p *Pieces) At(i int) string {
	r, at := p.runs[i/runLength], i%runLength
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
