//go:build unix

package localtools

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command and all it starts into a process group of its own, so that
// they can be ended together.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endGroup ends what a command left behind.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nothing left is the usual case
	}
}
