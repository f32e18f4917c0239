//go:build !linux

package server

import "net"

// canWatch says that here it takes a goroutine for each connection to notice that it is
// closed, which net/http has already.
func canWatch(net.Conn) bool { return false }

type hangups struct{}

func (*hangups) watch(net.Conn, func()) (forget func()) { return func() {} }
