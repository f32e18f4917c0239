package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestCollectorPercent_SmallServersSaveTimeLargeOnesMemory(t *testing.T) {
	for _, tt := range []struct {
		inUse, room uint64
		want        int
	}{
		{0, leastRoom, 1000}, {1 << 20, 16 << 20, 1000}, {4 << 20, 16 << 20, 400}, {16 << 20, 16 << 20, 100},
		{32 << 20, 16 << 20, 50}, {32 << 20, 32 << 20, 100}, {64 << 20, 16 << 20, 25}, {8 << 30, mostRoom, 25},
	} {
		if got := collectorPercent(tt.inUse, tt.room); got != tt.want {
			t.Errorf("%d bytes in use and room for %d: got %d %%, want %d %%", tt.inUse, tt.room, got, tt.want)
		}
	}
}

func TestRoomFor_FollowsWhatIsAllocated(t *testing.T) {
	room := uint64(leastRoom)
	for i, tt := range []struct {
		allocated uint64
		pressed   bool
		want      uint64
	}{
		{0, false, leastRoom}, {10 << 20, true, 20 << 20}, {1 << 30, true, mostRoom}, {0, false, mostRoom / 2}, {20 << 20, true, 40 << 20}, {0, true, 20 << 20},
		{60 << 20, false, 30 << 20}, {1 << 30, false, mostRoom},
	} {
		if room = roomFor(tt.allocated, room, tt.pressed); room != tt.want {
			t.Errorf("second %d: got room for %d bytes, want %d", i, room, tt.want)
		}
	}
	for range 10 {
		room = roomFor(0, room, false)
	}
	if room != leastRoom {
		t.Errorf("a server that has become idle has room for %d bytes, want %d", room, uint64(leastRoom))
	}
}

// One wait in ten that is long makes a server pressed, for as long as there are such waits.
func TestWaitsForProcessors(t *testing.T) {
	bounds := []float64{0, 1e-6, 1e-4, 2e-3, 1}
	var w waitsForProcessors
	for i, tt := range []struct {
		counts  []uint64
		pressed bool
	}{
		{[]uint64{0, 0, 0, 0}, false}, {[]uint64{50, 40, 9, 1}, false}, {[]uint64{50, 40, 9, 1}, false},
		{[]uint64{100, 80, 20, 20}, true}, {[]uint64{200, 170, 20, 21}, false}, {[]uint64{200, 170, 29, 23}, true},
	} {
		if got := w.among(tt.counts, bounds); got != tt.pressed {
			t.Errorf("look %d: pressed %t, want %t", i, got, tt.pressed)
		}
	}
}

// The runtime tells how long goroutines wait: more of them than there are processors do.
func TestWaitsForProcessors_OfTheRuntime(t *testing.T) {
	var w waitsForProcessors
	w.pressed()
	for try := 0; !w.pressed(); try++ {
		if try == 10 {
			t.Fatal("the server does not seem to be pressed")
		}
		var all sync.WaitGroup
		for range 32 * runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); { //nolint:revive // it works
				}
			})
		}
		all.Wait()
	}
}

// The end of a rush is noticed once, and not while there is no time for it.
func TestRush(t *testing.T) {
	var r rush
	for i, tt := range []struct {
		allocated uint64
		pressed   bool
		over      bool
	}{
		{0, false, false}, {8 << 20, false, false}, {0, false, false}, {20 << 20, false, false}, {16 << 20, false, false}, {5 << 20, false, true},
		{1 << 20, false, false}, {0, false, false}, {40 << 20, true, false}, {1 << 20, true, false}, {1 << 20, false, true}, {0, false, false},
	} {
		if got := r.isOver(tt.allocated, tt.pressed); got != tt.over {
			t.Errorf("second %d: over %t, want %t", i, got, tt.over)
		}
	}
}

// A server that stops working gives its memory back once, and again after it has worked.
func TestIdleSince(t *testing.T) {
	const work = 1 << 20
	var i idleSince
	allocated, at := uint64(0), []int{}
	for look := range 60 {
		if look < 5 || look == 30 {
			allocated += work
		}
		allocated += 1000 // there is always something
		if i.begins(allocated) {
			at = append(at, look)
		}
	}
	if want := []int{14, 40}; !slices.Equal(at, want) {
		t.Errorf("memory is given back at looks %v, want %v", at, want)
	}
}

func TestTuneCollector_FollowsWhatIsInUse(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	large := make([]byte, 128<<20)
	runtime.GC()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tuneCollector(ctx)
	}()
	got := percentNow()
	for end := time.Now().Add(30 * time.Second); got == 100 && time.Now().Before(end); got = percentNow() {
		time.Sleep(collectorPeriod / 4)
	}
	runtime.KeepAlive(large)
	if got != leastPercent {
		t.Errorf("with 128 MiB in use the collector's percentage is %d, want %d", got, leastPercent)
	}
	cancel()
	<-done
	if got := percentNow(); got != 100 {
		t.Errorf("it was left at %d", got)
	}
}

func percentNow() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
