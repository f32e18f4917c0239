package intern

import (
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestTable(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		made int // of two times that it is asked for
	}{
		"short":           {"You help.", 1},
		"empty":           {"", 1},
		"as long as kept": {strings.Repeat("x", longest), 1},
		"too long":        {strings.Repeat("x", longest+1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			var table Table[string]
			made := 0
			create := func(text string) string {
				made++
				return text + "!"
			}
			text := []byte(tc.text)
			first, second := table.OfBytes(text, create), ""
			clear(text) // it is the caller's
			if second = table.Of(tc.text, create); first != tc.text+"!" || second != first {
				t.Errorf("got %.80q and %.80q for %.80q", first, second, tc.text)
			}
			if made != tc.made {
				t.Errorf("made %d times, want %d", made, tc.made)
			}
		})
	}
}

func TestTable_Bound(t *testing.T) {
	var table Table[int]
	for i := range 3 * most {
		got := table.Of(strconv.Itoa(i), func(text string) int {
			n, _ := strconv.Atoi(text)
			return n
		})
		if got != i {
			t.Fatalf("got %d for %d", got, i)
		}
		if len(table.known) > most {
			t.Fatalf("%d values are kept", len(table.known))
		}
	}
}

// Those who ask at the same time may all make the value, and get the same one.
func TestTable_Together(t *testing.T) {
	const askers = 4
	var table Table[*int]
	var asking, making sync.WaitGroup
	making.Add(askers)
	values := make([]*int, askers)
	for i := range values {
		asking.Go(func() {
			values[i] = table.Of("a", func(string) *int {
				making.Done()
				making.Wait() // until nobody has found it
				return new(int)
			})
		})
	}
	asking.Wait()
	for _, v := range values {
		if v != values[0] {
			t.Fatal("there are two values of one text")
		}
	}
}

func BenchmarkTable_Known(b *testing.B) {
	var table Table[string]
	text := []byte(strings.Repeat("x", 4<<10))
	b.ReportAllocs()
	for b.Loop() {
		table.OfBytes(text, strings.Clone)
	}
}
