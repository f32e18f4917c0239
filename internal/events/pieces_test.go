package events_test

import (
	"slices"
	"testing"

	"github.com/aptixhq/aptix/internal/events"
)

func TestPieces(t *testing.T) {
	for _, want := range [][]string{nil, {"a"}, {"Hel", "", "lo ", "wörld", ""}, {""}} {
		var p events.Pieces
		for i, piece := range want {
			p.Add(piece)
			if got := p.At(i); got != piece {
				t.Errorf("piece %d of %q is %q", i, want, got)
			}
		}
		if got := p.Strings(); p.Len() != len(want) || !slices.Equal(got, want) {
			t.Errorf("%d pieces %q, want %q", p.Len(), got, want)
		}
	}
}
