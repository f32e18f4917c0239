//go:build unix

package mock

import (
	"errors"
	"syscall"
)

// write writes what the reader has room for, without waiting.
func (s *stream) write(b []byte) (n int, err error) {
	failed := s.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return max(n, 0), errors.Join(failed, err)
}
