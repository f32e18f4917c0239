package server

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddr returns the address that a request comes from. What stands in
// X-Forwarded-For counts as far as proxies that the operator trusts have written it: from
// the right, the first address that is none of theirs. Anybody can write the rest.
func (s *Server) clientAddr(r *http.Request) string {
	if len(s.proxies) == 0 {
		return r.RemoteAddr
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !s.trusts(peer.Addr()) {
		return r.RemoteAddr
	}
	client := peer.Addr()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			break // the last one that can be read has written this
		}
		if client = hop; !s.trusts(hop) {
			break
		}
	}
	return netip.AddrPortFrom(client, 0).String()
}

// parseHop reads an entry of X-Forwarded-For: an address, which some proxies write with
// its port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}

func (s *Server) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range s.proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
