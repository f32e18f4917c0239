//go:build !unix

package localtools

import "os/exec"

// ownGroup does nothing here: only the shell itself can be ended.
func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
