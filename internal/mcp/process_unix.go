//go:build unix && !linux

package mcp

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a child the first of a process group. A child that reads its input ends
// when this process is gone.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// collect waits for the end of a child and ends all that it started.
func collect(cmd *exec.Cmd) error {
	err := cmd.Wait()
	killGroup(cmd.Process, syscall.SIGKILL)
	return err
}

// killGroup sends a signal to a child and all that it started.
func killGroup(p *os.Process, signal syscall.Signal) { _ = syscall.Kill(-p.Pid, signal) }
