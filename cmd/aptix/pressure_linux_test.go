package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// D-6: a gibibyte of large requests, sixteen at a time, to a server that is to get by with
// 256 MiB. It takes those for which there is room and refuses the others; it does not grow
// beyond twice what it was given, and serves as ever when they are over. The race detector
// has memory of its own, so scripts/test judges that without it.
func TestPressure_LargeRequestsInLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("sends a gibibyte")
	}
	const given = 256 << 20
	s := startUnder(t, fmt.Sprint("GOMEMLIMIT=", given))
	requests, size := 136, 0
	if raceDetector {
		requests = 20
	}
	// A sender that is slow to see that it was refused finds the connection closed.
	const cutOff = -1
	codes := map[int]int{}
	var mu sync.Mutex // guards codes and size
	slots := make(chan struct{}, 16)
	var work sync.WaitGroup
	began := time.Now()
	for i := range requests {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			path, body := "/v1/agent/preview", largeTurn(i, 1900<<10)
			switch {
			case i%4 == 0:
				body = largeTurn(i, 3<<20) // more than a body may have
			case i%10 == 1:
				path = "/v1/agent/execute"
			}
			code, err := s.post(path, body)
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				code, err = cutOff, nil
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
			size += len(body)
		})
	}
	work.Wait()
	most := s.peak(t)
	t.Logf("D-6: %d requests of %d MiB in all, in %s: %v; at most %d MiB resident of %d given", requests, size>>20, time.Since(began).Round(time.Millisecond), codes, most>>20, given>>20)
	for code := range codes {
		if !slices.Contains([]int{http.StatusOK, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, cutOff}, code) {
			t.Errorf("a request was answered with %d", code)
		}
	}
	if codes[http.StatusOK] == 0 || codes[http.StatusRequestEntityTooLarge] == 0 {
		t.Error("nothing was taken, or nothing was too large")
	}
	if most > 2*given && !raceDetector {
		t.Errorf("the server took %d MiB of memory", most>>20)
	}
	if code, err := s.post("/v1/agent/execute", []byte(`{"sessionId":"after","turnId":"t","instruction":"hello"}`)); code != http.StatusOK || err != nil {
		t.Errorf("a turn afterwards: %d, %v", code, err)
	}
}

// largeTurn is a turn with four files of so many bytes.
func largeTurn(i, each int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"sessionId":"s%d","turnId":"t","instruction":"hello","inputArtifacts":[`, i)
	for n := range 4 {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"relativePath":"f%d.txt","fileName":"f%d.txt","origin":"ide","contents":"%s"}`, n, n, strings.Repeat("x", each))
	}
	b.WriteString("]}")
	return b.Bytes()
}

// pressed is a server process that is short of something.
type pressed struct {
	cmd *exec.Cmd
	url string
}

// startUnder starts a server with a variable set, for the length of the test.
func startUnder(t *testing.T, variable string) *pressed {
	t.Helper()
	cmd := exec.Command("aptix", "serve", "--listen", "127.0.0.1:0")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, variable}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ready := make(chan string, 1)
	go func() { // ends with the process
		defer close(ready)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if _, url, ok := strings.Cut(lines.Text(), "Aptix is ready at "); ok {
				ready <- url
			}
		}
	}()
	select {
	case url, ok := <-ready:
		if !ok {
			t.Fatal("the server did not start")
		}
		return &pressed{cmd, url}
	case <-time.After(within):
		t.Fatalf("the server is not ready after %s", within)
	}
	return nil
}

// post sends a body and reads the answer to its end.
func (p *pressed) post(path string, body []byte) (int, error) {
	res, err := http.Post(p.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// peak returns the most memory that the process had resident, in bytes.
func (p *pressed) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the process has no VmHWM")
	return 0
}
