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
		inUse uint64
		want  int
	}{{0, 1000}, {1 << 20, 1000}, {4 << 20, 400}, {16 << 20, 100}, {32 << 20, 50}, {64 << 20, 25}, {8 << 30, 25}} {
		if got := collectorPercent(tt.inUse); got != tt.want {
			t.Errorf("%d bytes in use: got %d %%, want %d %%", tt.inUse, got, tt.want)
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
