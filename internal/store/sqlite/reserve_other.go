//go:build !linux

package sqlite

import "os"

// allocate makes sure that the disk has this much space for the file.
func allocate(f *os.File, size int64) error { return fill(f, size) }
