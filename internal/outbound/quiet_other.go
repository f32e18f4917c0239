//go:build !unix

package outbound

import "net"

// havePlain says that isQuiet cannot tell: every request goes to http.Transport.
const havePlain = false

func isQuiet(net.Conn) bool { return false }
