//go:build unix

package outbound

import (
	"errors"
	"net"
	"syscall"
)

// havePlain says that isQuiet can tell.
const havePlain = true

// isQuiet reports whether an idle connection is open at the other end, and nothing has come
// on it that nobody asked for.
func isQuiet(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
		return true // do not wait for anything
	})
	return err == nil && quiet
}
