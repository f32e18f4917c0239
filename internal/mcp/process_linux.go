package mcp

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes a child the first of a process group, and has the kernel kill it when
// this process is gone without a word.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// collect waits for the end of a child and ends all that it started. That comes before the
// child is collected: until then nobody else can have the number of its group.
func collect(cmd *exec.Cmd) error {
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil).(unix.Errno)
	}
	killGroup(cmd.Process, syscall.SIGKILL)
	return cmd.Wait()
}

// killGroup sends a signal to a child and all that it started.
func killGroup(p *os.Process, signal syscall.Signal) { _ = syscall.Kill(-p.Pid, signal) }
