package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// allocate makes sure that the disk has this much space for the file.
func allocate(f *os.File, size int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return fill(f, size)
		}
		return err
	}
}
