package chat

import "golang.org/x/sys/unix"

// flushInput drops what was typed at a terminal and not yet read.
func flushInput(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
