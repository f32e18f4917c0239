package outbound

import (
	"fmt"
	"net/netip"
	"strings"
)

// Allowlist names networks and hosts that URLs which came over the API may lead to although
// they are not public, or are not spoken to over https. Metadata services are not among
// them, whatever it says. The zero Allowlist names none.
type Allowlist struct {
	networks []netip.Prefix
	hosts    map[string]bool
}

// ParseAllowlist reads entries such as 10.1.0.0/16, 192.168.1.5 and hooks.internal. A host
// counts at every port, and wherever its name leads. The error names the first entry that
// is none of these.
func ParseAllowlist(entries []string) (Allowlist, error) {
	list := Allowlist{hosts: map[string]bool{}}
	for _, entry := range entries {
		if p, err := netip.ParsePrefix(entry); err == nil {
			list.networks = append(list.networks, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(entry); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			list.networks = append(list.networks, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		if !isHostName(entry) {
			return Allowlist{}, fmt.Errorf("%q: want a network such as 10.1.0.0/16, an address, or the name of a host without scheme and port", entry)
		}
		list.hosts[canonicalHost(entry)] = true
	}
	return list, nil
}

// NamesHost reports whether the list has a host by its name, or by the address that it is
// written as.
func (l Allowlist) NamesHost(host string) bool {
	if l.hosts[canonicalHost(host)] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && l.hasAddr(ip)
}

// hasAddr reports whether an address is in one of the networks.
func (l Allowlist) hasAddr(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, n := range l.networks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

// canonicalHost is the one form in which names are compared.
func canonicalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// isHostName reports whether a text is the name of a host, and no spelling of an address.
func isHostName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	name := canonicalHost(s)
	return name != "" && len(name) <= 253 && strings.Trim(name, letters) == "" && strings.IndexFunc(name, outside(letters)) < 0 &&
		!strings.Contains(name, "..") && !strings.HasPrefix(name, ".") && !endsInNumber(name)
}

func outside(set string) func(rune) bool {
	return func(r rune) bool { return !strings.ContainsRune(set, r) }
}

// endsInNumber reports whether the last label of a name is a number. Such a name is in no
// zone; it is an address in a spelling that only some resolvers take, such as 0177.1 or
// 0x7f000001.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if rest, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
