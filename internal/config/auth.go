package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Auth says whose tokens are taken beside API keys, which are made and not configured.
type Auth struct {
	OIDC OIDC `koanf:"oidc"`
}

// OIDC names an OpenID issuer and says what its tokens mean; see auth.TokensConfig.
type OIDC struct {
	Issuer     string   `koanf:"issuer"`
	Audience   string   `koanf:"audience"`
	Algorithms []string `koanf:"algorithms"`
	OrgClaim   string   `koanf:"orgClaim"`
	UserClaim  string   `koanf:"userClaim"`
	RoleClaim  string   `koanf:"roleClaim"`
	// Roles are roles by the value of RoleClaim that means them.
	Roles map[string]agent.Role `koanf:"roles"`
}

// Configured reports whether there is an issuer.
func (o OIDC) Configured() bool { return o.Issuer != "" }

// TLS names the files of the server's certificate; both or none.
type TLS struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}

// Configured reports whether the server speaks TLS.
func (t TLS) Configured() bool { return t.Cert != "" }

// authDefaults are what tokens mean when the file says nothing else.
func authDefaults() map[string]any {
	return map[string]any{"oidc": map[string]any{"algorithms": []string{"RS256"}, "orgClaim": "org", "userClaim": "sub"}}
}

// signing are the algorithms by which a token may be signed: those with a key that only
// the issuer has. With HS256 and its like everybody who checks a token can make one.
var signing = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

func (a Auth) problems() Problems {
	o := a.OIDC
	var p Problems
	add := func(format string, args ...any) { p = append(p, "auth.oidc."+fmt.Sprintf(format, args...)) }
	if !o.Configured() {
		if o.Audience != "" || o.RoleClaim != "" || len(o.Roles) > 0 {
			add("issuer: want the URL of the issuer, since the other settings of auth.oidc are there")
		}
		return p
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		add("issuer: want the URL of the issuer as its tokens have it, such as https://login.example.com")
	} else if u.Scheme == "http" && !loopback(u.Hostname()) {
		add("issuer: want https://; whoever can change its answers on the way signs for everybody")
	}
	if o.Audience == "" {
		add("audience: want the name of this server at the issuer; a token that is meant for another service is not taken")
	}
	if len(o.Algorithms) == 0 {
		add("algorithms: want at least one of %s", strings.Join(signing, ", "))
	}
	for _, name := range o.Algorithms {
		if !slices.Contains(signing, name) {
			add("algorithms: %q is not taken; want %s", name, strings.Join(signing, ", "))
		}
	}
	if o.OrgClaim == "" {
		add("orgClaim: want the claim that names the organisation")
	}
	if o.UserClaim == "" {
		add("userClaim: want the claim that names the user")
	}
	if o.RoleClaim == "" && len(o.Roles) > 0 {
		add("roleClaim: want the claim that roles translates")
	}
	for _, value := range slices.Sorted(maps.Keys(o.Roles)) {
		if role := o.Roles[value]; !role.Includes(agent.RoleUser) {
			add("roles.%s: %q is unknown; want %s, %s or %s", value, role, agent.RoleUser, agent.RoleOperator, agent.RoleAdmin)
		}
	}
	return p
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// networkProblems returns what is wrong with how the server is reached.
func (c Config) networkProblems() Problems {
	var p Problems
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		p = append(p, "tls: want both cert and key, or none of them")
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/: \t*") && !strings.HasPrefix(host, "[") {
			p = append(p, fmt.Sprintf("hosts: %q is no host name; write it without scheme and port", host))
		}
	}
	if _, err := c.Proxies(); err != nil {
		p = append(p, err.Error())
	}
	return p
}

// Proxies returns the networks of the trusted proxies.
func (c Config) Proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); aerr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("trustedProxies: %q is no network; want one such as 10.0.0.0/8", text)
		}
		if prefix.Bits() == 0 {
			return nil, fmt.Errorf("trustedProxies: %s is everybody; name the networks of the proxies", text)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// authSettings are how callers prove who they are, and how the server is reached.
func authSettings() []setting {
	oidc := func(show func(OIDC) string) func(Config) string {
		return func(c Config) string {
			if !c.Auth.OIDC.Configured() {
				return ""
			}
			return show(c.Auth.OIDC)
		}
	}
	return []setting{
		{key: "tls.cert", env: "APTIX_TLS_CERT", show: func(c Config) string { return c.TLS.Cert }},
		{key: "tls.key", env: "APTIX_TLS_KEY", show: func(c Config) string { return c.TLS.Key }},
		{key: "hosts", show: func(c Config) string { return strings.Join(c.Hosts, ", ") }},
		{key: "trustedProxies", show: func(c Config) string { return strings.Join(c.TrustedProxies, ", ") }},
		{key: "auth.oidc.issuer", env: "APTIX_OIDC_ISSUER", show: oidc(func(o OIDC) string { return o.Issuer })},
		{key: "auth.oidc.audience", env: "APTIX_OIDC_AUDIENCE", show: oidc(func(o OIDC) string { return o.Audience })},
		{key: "auth.oidc.algorithms", show: oidc(func(o OIDC) string { return strings.Join(o.Algorithms, ", ") })},
		{key: "auth.oidc.orgClaim", show: oidc(func(o OIDC) string { return o.OrgClaim })},
		{key: "auth.oidc.userClaim", show: oidc(func(o OIDC) string { return o.UserClaim })},
		{key: "auth.oidc.roleClaim", show: oidc(func(o OIDC) string { return o.RoleClaim })},
		{key: "auth.oidc.roles", show: oidc(func(o OIDC) string {
			var out []string
			for _, value := range slices.Sorted(maps.Keys(o.Roles)) {
				out = append(out, value+"="+string(o.Roles[value]))
			}
			return strings.Join(out, ", ")
		})},
	}
}
