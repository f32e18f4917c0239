package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The room that the garbage collector leaves above what is in use: as much again, as
// always in Go, until that is roomAtMost; from there on roomAtMost, or leastPercent
// of what is in use if that is more. A small server saves collections, a large one
// memory: ten thousand open streams would else cost twice what they hold.
const (
	roomAtMost   = 16 << 20
	leastPercent = 25
)

// collectorPeriod is how often the collector's aim is checked.
const collectorPeriod = time.Second

// tuneCollector keeps the collector's aim until ctx ends. GOGC and GOMEMLIMIT in the
// environment are somebody's decision and are left alone.
func tuneCollector(ctx context.Context) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, set := os.LookupEnv(name); set {
			return
		}
	}
	ticker := time.NewTicker(collectorPeriod)
	defer ticker.Stop()
	now := 100
	for {
		select {
		case <-ctx.Done():
			debug.SetGCPercent(100)
			return
		case <-ticker.C:
		}
		// A change stops the world for a moment; small ones are not worth it.
		if want := collectorPercent(inUse()); want > now+now/8 || want < now-now/8 || want == 100 && now != 100 {
			debug.SetGCPercent(want)
			now = want
		}
	}
}

// inUse returns the bytes on which the collector's percentage is reckoned: what the last
// collection found in use, and the stacks.
func inUse() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(samples)
	n := uint64(0)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n += s.Value.Uint64()
		}
	}
	return n
}

// collectorPercent is the percentage of what is in use that may become garbage before
// it is collected.
func collectorPercent(inUse uint64) int {
	if inUse <= roomAtMost {
		return 100
	}
	return max(leastPercent, int(100*roomAtMost/inUse))
}
