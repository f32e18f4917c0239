package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReleaseProgram_LetsPagesOfFilesGo(t *testing.T) {
	file := mapFile(t, "as the file is")
	before := mappedFiles(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mappedFiles(t); after >= before {
		t.Errorf("%d KB of files are mapped, %d KB before", after, before)
	}
	if got := string(file[:14]); got != "as the file is" {
		t.Errorf("the file reads %q", got)
	}
}

// A debugger's breakpoints are such pages.
func TestReleaseProgram_KeepsWhatIsNotAsTheFile(t *testing.T) {
	file := mapFile(t, "as the file is")
	if err := unix.Mprotect(file, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	copy(file, "otherwise")
	if err := unix.Mprotect(file, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if got := string(file[:9]); got != "otherwise" {
		t.Errorf("the pages read %q: what was written to them is lost", got)
	}
}

func TestReadMapping(t *testing.T) {
	const rest = " 00000000 fe:00 1234 "
	for _, tt := range []struct {
		line     string
		readOnly bool
	}{
		{"00400000-01310000 r-xp" + rest + "/usr/bin/aptix", true},
		{"01310000-0230a000 r--p" + rest + "/usr/bin/aptix", true},
		{"0230a000-02404000 rw-p" + rest + "/usr/bin/aptix", false},
		{"7f0000000000-7f0000008000 r--s" + rest + "/data/aptix.db-shm", false},
		{"02404000-0444e000 r--p 00000000 00:00 0", false},
		{"7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]", false},
	} {
		m, err := readMapping(strings.Fields(tt.line))
		if err != nil || m.readOnly != tt.readOnly || m.end <= m.start {
			t.Errorf("%s: got %+v and error %v, want readOnly %v", tt.line, m, err, tt.readOnly)
		}
	}
	if _, err := readMapping([]string{"nonsense"}); err == nil {
		t.Error("nonsense is taken")
	}
}

// mapFile maps a file that holds a text, to be read.
func mapFile(t *testing.T, text string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mapped, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	return mapped
}

// mappedFiles returns how many kilobytes of files are mapped.
func mappedFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	value, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
