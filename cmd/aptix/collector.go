package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// The room that the garbage collector leaves above what is in use, in bytes: what the
// server allocates in half a second, or in two while it is pressed for processors, within
// bounds, or leastPercent of what is in use if that is more. Go itself leaves as much again
// as is in use. A small server would then collect every few turns, which costs a tenth of its
// time; and ten thousand open streams would cost twice what they hold. With a thousand turns
// that stream, a collection takes half of a processor or more for 50 ms, and while everybody
// waits for one there must not be many.
const (
	leastRoom    = 8 << 20
	mostRoom     = 64 << 20
	leastPercent = 25
	mostPercent  = 1000
)

// A server is pressed while one in ten of its goroutines that could run waits for longer
// than this for a processor.
const pressedWait = time.Millisecond

// A server that has allocated less than idleBytes in each of so many looks is idle: it
// gives the memory back that it does not use.
const (
	idleBytes = 256 << 10
	idleLooks = 10
)

// collectorPeriod is how often the collector's aim is checked.
const collectorPeriod = time.Second

// giveBack returns to the system what only the start needed, buffers of the migrations
// above all. It is for the moment before the first request.
func giveBack(log *slog.Logger) {
	debug.FreeOSMemory()
	if err := releaseProgram(); err != nil {
		log.Debug("pages of the program stay mapped", "error", err)
	}
}

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
	idle := idleSince{}
	waits := waitsForProcessors{}
	rush := rush{}
	_, before := inUse()
	room := uint64(leastRoom)
	for {
		select {
		case <-ctx.Done():
			debug.SetGCPercent(100)
			return
		case <-ticker.C:
		}
		used, allocated := inUse()
		lately, pressed := allocated-before, waits.pressed()
		room, before = roomFor(lately, room, pressed), allocated
		// A change stops the world for a moment; small ones are not worth it.
		if want := collectorPercent(used, room); want > now+now/8 || want < now-now/8 {
			debug.SetGCPercent(want)
			now = want
		}
		if over := rush.isOver(lately, pressed); over || idle.begins(allocated) {
			debug.FreeOSMemory()
		}
	}
}

// idleSince counts looks at a server that does nothing.
type idleSince struct {
	allocated uint64 // at the last look
	looks     int
}

// begins reports, once, that the server has become idle. It is told what was allocated
// since the start.
func (i *idleSince) begins(allocated uint64) bool {
	if allocated-i.allocated >= idleBytes {
		i.looks = 0
	} else {
		i.looks++
	}
	i.allocated = allocated
	return i.looks == idleLooks
}

// A rush is over when a server that has allocated rushBytes in a second allocates a quarter
// as much, and nobody waits. Much of what it used is free by then, and would stay so for
// minutes: streams that have begun need little more.
const rushBytes = 16 << 20

// rush is the most that was allocated in a second since the last one was over.
type rush struct{ most uint64 }

// isOver reports, once for each, that a rush is over. It is told what was allocated in the
// last second.
func (r *rush) isOver(allocated uint64, pressed bool) bool {
	r.most = max(r.most, allocated)
	if r.most < rushBytes || allocated > r.most/4 || pressed {
		return false
	}
	r.most = allocated
	return true
}

// inUse returns the bytes on which the collector's percentage is reckoned, what the last
// collection found in use and the stacks, and those that were allocated since the start.
func inUse() (used, allocated uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	value := func(i int) uint64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return samples[i].Value.Uint64()
	}
	return value(0) + value(1), value(2)
}

// roomFor returns the room for a server that has allocated so much in the last second. It
// grows at once and shrinks in a few seconds.
func roomFor(allocated, before uint64, pressed bool) uint64 {
	room := allocated / 2
	if pressed {
		room = 2 * allocated
	}
	return min(max(room, before/2, leastRoom), mostRoom)
}

// waitsForProcessors looks at how long goroutines wait for a processor.
type waitsForProcessors struct {
	before []uint64 // the runtime's counts at the last look
}

// pressed reports whether the server was short of processors since the last look.
func (w *waitsForProcessors) pressed() bool {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return false
	}
	h := sample[0].Value.Float64Histogram()
	return w.among(h.Counts, h.Buckets)
}

// among is pressed for counts of waits between these bounds, in seconds.
func (w *waitsForProcessors) among(counts []uint64, bounds []float64) bool {
	var all, long uint64
	for i, n := range counts {
		if len(w.before) > i {
			n -= w.before[i]
		}
		all += n
		if bounds[i] >= pressedWait.Seconds() {
			long += n
		}
	}
	w.before = slices.Clone(counts)
	return 10*long > all
}

// collectorPercent is the percentage of what is in use that may become garbage before
// it is collected.
func collectorPercent(inUse, room uint64) int {
	return min(max(leastPercent, int(100*room/max(inUse, 1))), mostPercent)
}
