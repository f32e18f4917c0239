package chat

import (
	"strings"
	"testing"
)

func TestWheel(t *testing.T) {
	var out strings.Builder
	w := &wheel{out: newScreen(&out, false)}
	w.hide()
	for range 5 {
		w.turn()
	}
	w.hide()
	w.out.write("text")
	w.turn() // nothing turns behind a text
	w.hide()
	if got, want := out.String(), "\r|\r/\r-\r\\\r|\r \rtext"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
