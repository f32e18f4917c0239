package events_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/events"
)

func TestPieces(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Repeat(strconv.Itoa(i), i%7)
	}
	for _, want := range [][]string{nil, {"a"}, {"Hel", "", "lo ", "wörld", ""}, {""}, {strings.Repeat("long", 1000), "", "short"}, many[:64], many[:65], many[:320], many[:321], many} {
		var p events.Pieces
		for i, piece := range want {
			p.Add(piece)
			if got := p.At(i); got != piece {
				t.Errorf("piece %d of %q is %q", i, want, got)
			}
		}
		for i, piece := range want {
			if got := p.At(i); got != piece {
				t.Errorf("piece %d of %q is %q afterwards", i, want, got)
			}
		}
		if got := p.Strings(); p.Len() != len(want) || !slices.Equal(got, want) {
			t.Errorf("%d pieces %q, want %q", p.Len(), got, want)
		}
	}
}

// A commit that fails goes back to a copy, whatever came of the original meanwhile.
func TestPieces_ACopyIsGoneOnWith(t *testing.T) {
	for _, shared := range []int{0, 1, 63, 64, 65, 128, 319, 320, 321, 600} {
		var p events.Pieces
		var want []string
		for i := range shared {
			want = append(want, strconv.Itoa(i))
			p.Add(want[i])
		}
		read := p.Strings()
		before := p
		for range 70 {
			p.Add("gone")
		}
		gone := p.At(shared)
		for i := range 70 {
			want = append(want, "new"+strconv.Itoa(i))
			before.Add(want[shared+i])
		}
		if got := before.Strings(); !slices.Equal(got, want) {
			t.Errorf("with %d shared: %q, want %q", shared, got, want)
		}
		if gone != "gone" || !slices.Equal(read, want[:shared]) {
			t.Errorf("with %d shared: what was read before is %q and %q now", shared, read, gone)
		}
	}
}

// What a stream that runs while the collector does would have to help it for.
func TestPieces_AllocateSeldom(t *testing.T) {
	const n = 640
	var p events.Pieces
	allocations := testing.AllocsPerRun(10, func() {
		p = events.Pieces{}
		for i := range n {
			p.Add("a word ")
			if p.At(i) != "a word " {
				t.Fatal("another piece")
			}
		}
	})
	if allocations > n/40 {
		t.Errorf("%v allocations for %d pieces", allocations, n)
	}
}
