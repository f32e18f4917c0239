package events

// Pieces is a text in the pieces in which it came, kept close together: as strings of
// their own they would take several times what an open stream has shown. The zero value
// is empty. A copy shares what was there and may be gone on with instead of the original,
// not beside it.
type Pieces struct {
	text []byte
	ends []uint32 // where each piece ends in text; a text is far below 4 GiB
}

// Add appends a piece.
func (p *Pieces) Add(piece string) {
	p.text = append(p.text, piece...)
	p.ends = append(p.ends, uint32(len(p.text)))
}

// Len returns how many pieces there are.
func (p *Pieces) Len() int { return len(p.ends) }

// At returns the i-th piece, from 0 on.
func (p *Pieces) At(i int) string { return string(p.text[p.start(i):p.ends[i]]) }

func (p *Pieces) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return p.ends[i-1]
}

// Strings returns all pieces, nil when there are none.
func (p *Pieces) Strings() []string {
	if p.Len() == 0 {
		return nil
	}
	whole := string(p.text)
	out := make([]string, p.Len())
	for i := range out {
		out[i] = whole[p.start(i):p.ends[i]]
	}
	return out
}
