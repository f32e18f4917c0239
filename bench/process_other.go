//go:build !linux

package main

import (
	"os/exec"
	"time"
)

func detach(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// usageOf needs /proc.
func usageOf(int) (u usage, ok bool) { return usage{}, false }

// machineTime needs /proc.
func machineTime() (busy time.Duration, ok bool) { return 0, false }

// filesAllowed is known on Linux only.
func filesAllowed() (n uint64, ok bool) { return 0, false }
