package pipeline

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
)

// A turn over which a sweep panics keeps no other from being looked after.
// It holds row S-15 of docs/security.md.
func TestEach_OneThatPanicsIsLeft(t *testing.T) {
	var log bytes.Buffer
	var done atomic.Int64
	each(slog.New(slog.NewTextHandler(&log, nil)), []string{"a", "broken", "c"}, func(turn string) {
		if turn == "broken" {
			panic("no journal")
		}
		done.Add(1)
	})
	if done.Load() != 2 || !strings.Contains(log.String(), "turn=broken") || !strings.Contains(log.String(), "no journal") {
		t.Errorf("%d turns were looked after; log: %s", done.Load(), &log)
	}
}
