package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// detach makes a process the leader of a group of its own, so that what it starts ends
// with it, and has the kernel end it when this program dies.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// kill ends a process and what it has started.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// usageOf returns what a process has used; ok is false when nobody can tell.
func usageOf(pid int) (u usage, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, false
	}
	// The name in parentheses may hold anything; the twelfth field after it is utime.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return usage{}, false
		}
		u.cpu += time.Duration(n) * tick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.rss = kilobytes << 10
		case "VmHWM":
			u.peak = kilobytes << 10
		case "RssFile":
			u.files = kilobytes << 10
		}
	}
	return u, true
}

// machineTime returns how long the machine's processors have been busy, all together.
func machineTime() (busy time.Duration, ok bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, false
	}
	for i, f := range fields[1:9] {
		if i == 3 || i == 4 { // idle and waiting for a disk
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		busy += time.Duration(n) * tick
	}
	return busy, true
}

// filesAllowed returns how many files a process may have open. Programs in Go take as
// many as they may, whatever they are started with.
func filesAllowed() (n uint64, ok bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return limit.Max, true
}
