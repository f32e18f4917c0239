//go:build !unix

package mcp

import (
	"os"
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func collect(cmd *exec.Cmd) error { return cmd.Wait() }

// killGroup ends the child; the system knows no groups.
func killGroup(p *os.Process, _ syscall.Signal) { _ = p.Kill() }
