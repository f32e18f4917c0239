//go:build !unix

package pgtest

import "os/exec"

// unprivileged changes nothing: there is no root here.
func unprivileged(string) (func(*exec.Cmd), error) { return func(*exec.Cmd) {}, nil }
