package torture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// vitals are what a process holds.
type vitals struct {
	at                time.Time
	goroutines, files int
	// heap is what a collection leaves, resident what the system says, in bytes.
	heap, resident int
}

func (v vitals) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %.1f MiB of heap, %.1f MiB resident", v.goroutines, v.files, mib(v.heap), mib(v.resident))
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

// vitals asks the process what it holds.
func (n *node) vitals() vitals {
	n.t.Helper()
	const mark = "vitals: "
	from := n.stderr.size()
	if err := n.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		n.t.Fatal(err)
	}
	line := ""
	for end := time.Now().Add(30 * time.Second); line == ""; time.Sleep(5 * time.Millisecond) {
		if line = n.stderr.line(from, mark); time.Now().After(end) {
			n.t.Fatalf("the process says nothing of itself:\n%s", n.stderr.tail())
		}
	}
	v := vitals{at: time.Now()}
	if _, err := fmt.Sscanf(line, "%d goroutines, %d bytes", &v.goroutines, &v.heap); err != nil {
		n.t.Fatalf("%v in %q", err, line)
	}
	proc := filepath.Join("/proc", strconv.Itoa(n.cmd.Process.Pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		n.t.Skip("this system has no /proc: ", err)
	}
	v.files = len(files)
	pages, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(bytes.Fields(pages)[1]), &v.resident); err != nil {
		n.t.Fatal(err)
	}
	v.resident *= os.Getpagesize()
	return v
}

// settle waits until the server holds no more than it should, with nobody there.
func (s *soak) settle(rests func(vitals) bool) vitals {
	s.t.Helper()
	last := vitals{}
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		s.client.CloseIdleConnections()
		s.model.CloseClientConnections()
		now := s.node.vitals()
		if rests(now) && now.goroutines == last.goroutines && now.files == last.files {
			return now
		}
		if last = now; time.Now().After(end) {
			s.t.Errorf("the server does not come to rest: %s", now)
			return now
		}
	}
}

// growth is what a straight line through the looks rises by in an hour.
func growth(seen []vitals) string {
	slope := func(of func(vitals) int) float64 {
		var n, sx, sy, sxx, sxy float64
		for _, v := range seen {
			x, y := v.at.Sub(seen[0].at).Hours(), float64(of(v))
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
		return (n*sxy - sx*sy) / (n*sxx - sx*sx)
	}
	return fmt.Sprintf("%+.0f goroutines, %+.0f files, %+.2f MiB of heap, %+.2f MiB resident",
		slope(func(v vitals) int { return v.goroutines }), slope(func(v vitals) int { return v.files }),
		slope(func(v vitals) int { return v.heap })/(1<<20), slope(func(v vitals) int { return v.resident })/(1<<20))
}

// TestGrowth: the line is that of the looks.
func TestGrowth(t *testing.T) {
	var seen []vitals
	for i := range 10 {
		seen = append(seen, vitals{at: time.Unix(0, 0).Add(time.Duration(i) * time.Minute), goroutines: 100 + i, files: 7, heap: i << 20, resident: (50 - i) << 20})
	}
	if got, want := growth(seen), "+60 goroutines, +0 files, +60.00 MiB of heap, -60.00 MiB resident"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
