package server

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// canWatch reports whether hangups of a connection can be noticed without a goroutine of
// its own.
func canWatch(c net.Conn) bool { return rawConn(c) != nil }

// hangups notices clients that close their connections. The zero value is ready.
type hangups struct {
	mu      sync.Mutex // guards what follows
	poll    *os.File   // an epoll instance; nil while nothing is watched
	watched map[int32]func()
	last    int32
}

// watch calls gone, once, if the other end of a connection is closed before forget is
// called. A connection that cannot be watched is found to be closed when it is written to.
func (h *hangups) watch(c net.Conn, gone func()) (forget func()) {
	raw := rawConn(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if raw == nil || !h.begin() {
		return func() {}
	}
	h.last++
	id := h.last
	h.watched[id] = gone
	h.control(raw, syscall.EPOLL_CTL_ADD, &syscall.EpollEvent{Events: syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: id})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.control(raw, syscall.EPOLL_CTL_DEL, &syscall.EpollEvent{})
		if delete(h.watched, id); len(h.watched) == 0 {
			_ = h.poll.Close()
			h.poll = nil
		}
	}
}

// rawConn returns the system's connection, or nil.
func rawConn(c net.Conn) syscall.RawConn {
	if r, ok := c.(*returned); ok {
		c = r.Conn
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// begin sees to it that somebody looks. mu is held.
func (h *hangups) begin() bool {
	if h.poll != nil {
		return true
	}
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	// Go's own poller waits for ours, so that no thread does.
	h.poll, h.watched = os.NewFile(uintptr(fd), "hangups"), map[int32]func(){}
	looking, err := h.poll.SyscallConn()
	if err != nil {
		_ = h.poll.Close()
		h.poll = nil
		return false
	}
	go h.look(looking)
	return true
}

// control is epoll_ctl for a connection. mu is held.
func (h *hangups) control(raw syscall.RawConn, op int, e *syscall.EpollEvent) {
	poll, err := h.poll.SyscallConn()
	if err != nil {
		return
	}
	_ = poll.Control(func(epfd uintptr) {
		_ = raw.Control(func(fd uintptr) { _ = syscall.EpollCtl(int(epfd), op, int(fd), e) })
	})
}

// look tells of hangups until nothing is watched any more.
func (h *hangups) look(poll syscall.RawConn) {
	var found [64]syscall.EpollEvent
	for {
		n := 0
		err := poll.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), found[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		h.tell(found[:n])
	}
}

func (h *hangups) tell(found []syscall.EpollEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range found {
		if gone := h.watched[e.Fd]; gone != nil {
			gone()
		}
	}
}
