package outbound

import (
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// alwaysRefused are the addresses at which clouds hand out credentials, and all of IPv4's
// link-local network, where most of them are. Nobody can name them.
var alwaysRefused = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),      // AWS, Azure, Google Cloud, Oracle, and others
	netip.MustParsePrefix("100.100.100.200/32"),  // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),    // Azure's platform, a public address
	netip.MustParsePrefix("192.0.0.192/32"),      // Oracle Cloud, the older one
	netip.MustParsePrefix("fd00:ec2::/32"),       // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),    // Google Cloud
	netip.MustParsePrefix("fd00:42::42/128"),     // Scaleway
	netip.MustParsePrefix("fe80::a9fe:a9fe/128"), // OpenStack
}

// public knows which addresses are, by IANA's registries of special purposes. It is asked
// about addresses alone.
var public = ssrf.New()

func isPublic(ip netip.Addr) bool { return public.SafeAddr(ip) == nil }

// isMetadata reports whether an address is, or holds, one that is always refused.
func isMetadata(ip netip.Addr) bool {
	inner, ok := embedded(ip)
	return slices.ContainsFunc(alwaysRefused, func(p netip.Prefix) bool { return p.Contains(ip) || ok && p.Contains(inner) })
}

// plainForm returns the address that is meant: IPv4 in IPv6's notation, or behind the
// gateway of a network without IPv4 (NAT64), is IPv4. Zones do not tell addresses apart.
func plainForm(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if ssrf.IPv6NAT64Prefix.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

var (
	sixToFour    = netip.MustParsePrefix("2002::/16")
	compatible   = netip.MustParsePrefix("::/96")
	privateNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// embedded returns the IPv4 address that an IPv6 address of an older or local form holds.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	b := ip.As16()
	switch {
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case compatible.Contains(ip), privateNAT64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}
