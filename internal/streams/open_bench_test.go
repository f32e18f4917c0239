package streams

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/server"
)

// envServe makes the test binary the server of BenchmarkOpen, which is measured from
// outside.
const envServe = "APTIX_STREAMS_SERVE"

// BenchmarkOpen opens ten thousand readers of a running turn, leaves them open through
// some silence, and then lets the turn go on. It reports what a reader costs the
// server in memory, what the silence costs it in processor time, and how long it takes
// until all have the end. It holds row L-1 of docs/limits.md.
func BenchmarkOpen(b *testing.B) {
	if os.Getenv(envServe) != "" {
		serveOpen(b)
		return
	}
	const readers = 9500 // of 20,000 files that a process may have here, the server needs one for each
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkOpen$", "-test.benchtime=1x")
		cmd.Env = append(os.Environ(), envServe+"=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		addr := ""
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				addr = rest
				break
			}
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		r := &rig{addr: addr}
		dial := func(method, path, body string) net.Conn {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			if err := r.request(b, method, path, body).Write(c); err != nil {
				b.Fatal(err)
			}
			return c
		}
		conns := []net.Conn{dial("POST", "/v1/agent/execute", execute)}
		readUntil(b, conns[0], "One ")
		pid := cmd.Process.Pid
		before := rss(b, pid)
		for range readers {
			conns = append(conns, dial("GET", "/v1/sessions/s/turns/t/events", ""))
		}
		for _, c := range conns[1:] {
			readUntil(b, c, "One ")
		}
		time.Sleep(15 * time.Second) // all have had a heartbeat
		full, busy := rss(b, pid), cpu(b, pid)
		time.Sleep(30 * time.Second)
		b.ReportMetric(float64(full)/(1<<20), "MiB-rss")
		b.ReportMetric(float64(full-before)/readers, "B/reader")
		b.ReportMetric(100*(cpu(b, pid)-busy).Seconds()/30, "%-core-idle")
		start := time.Now()
		_, _ = in.Write([]byte("\n"))
		for _, c := range conns {
			readUntil(b, c, "event: turn.completed")
		}
		b.ReportMetric(time.Since(start).Seconds(), "s-all-ended")
		for _, c := range conns {
			_ = c.Close()
		}
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// serveOpen serves a turn that stands still in its text until a line comes in.
func serveOpen(b *testing.B) {
	gate := make(chan struct{})
	r := newRig(b, options{server: server.Config{Heartbeat: 15 * time.Second}},
		llmtest.Reply{Deltas: []string{"One ", "two."}, Block: gate, BlockAfter: 5})
	_, _ = fmt.Fprintf(os.Stdout, "\nlistening on %s\n", r.addr)
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	close(gate)
	_, _ = in.ReadString('\n')
}

// readUntil reads until a text has come.
func readUntil(b *testing.B, c net.Conn, text string) {
	b.Helper()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var got []byte
	part := make([]byte, 4<<10)
	for !bytes.Contains(got, []byte(text)) {
		n, err := c.Read(part)
		got = append(got, part[:n]...)
		if err != nil {
			b.Fatalf("%v before %q came: %s", err, text, got)
		}
	}
}

// rss returns the resident memory of a process in bytes.
func rss(b *testing.B, pid int) int64 {
	b.Helper()
	return field(b, pid, 21) * int64(os.Getpagesize())
}

// cpu returns the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	const ticks = 100 // a second, on every Linux
	return time.Duration(field(b, pid, 11)+field(b, pid, 12)) * time.Second / ticks
}

// field returns a number of /proc/PID/stat, counted from the state on.
func field(b *testing.B, pid, n int) int64 {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		b.Skip("this system has no /proc: ", err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	v, err := strconv.ParseInt(fields[n], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
