//go:build !linux

package mcp_test

// Only Linux can end a child with its parent.
func parent() {}
