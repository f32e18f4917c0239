//go:build failpoints

package main

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// watchVitals has a build that is made to be tortured say, at each SIGUSR1, how many
// goroutines it has and how many bytes of the heap a collection leaves. What it returns ends
// that.
func watchVitals(out io.Writer) (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	var watching sync.WaitGroup
	watching.Go(func() {
		for range asked {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			say(out, "vitals: %d goroutines, %d bytes", runtime.NumGoroutine(), m.HeapAlloc)
		}
	})
	return func() {
		signal.Stop(asked)
		close(asked)
		watching.Wait()
	}
}
