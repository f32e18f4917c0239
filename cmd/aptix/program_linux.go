package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram lets go of the pages of the program and its libraries that were mapped
// so far: a start runs through most of them once (D133). What is used again, the
// system maps from its cache, which takes microseconds.
func releaseProgram() error {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	var m mapping
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			if m, err = readMapping(fields); err != nil {
				return err
			}
		case fields[0] == "Anonymous:" && fields[1] == "0" && m.readOnly:
			// Nothing of it is ours, as a debugger's breakpoints would be. It is as the
			// file is, and can be had again.
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
				return errno
			}
		}
	}
	return nil
}

// mapping is a part of the address space.
type mapping struct {
	start, end uintptr
	readOnly   bool // of a file, and nobody writes to it
}

// readMapping reads the line by which a mapping begins in smaps.
func readMapping(fields []string) (m mapping, err error) {
	if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil || len(fields) < 5 {
		return m, fmt.Errorf("read a mapping %q: %w", fields, err)
	}
	m.readOnly = strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(fields[1], "p") && len(fields) > 5 && strings.HasPrefix(fields[5], "/")
	return m, nil
}
