package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
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
	for i, tt := range []struct{ allocated, want uint64 }{
		{0, leastRoom}, {10 << 20, 20 << 20}, {1 << 30, mostRoom}, {0, mostRoom / 2}, {20 << 20, 40 << 20}, {0, 20 << 20},
	} {
		if room = roomFor(tt.allocated, room); room != tt.want {
			t.Errorf("second %d: got room for %d bytes, want %d", i, room, tt.want)
		}
	}
	for range 10 {
		room = roomFor(0, room)
	}
	if room != leastRoom {
		t.Errorf("a server that has become idle has room for %d bytes, want %d", room, uint64(leastRoom))
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
