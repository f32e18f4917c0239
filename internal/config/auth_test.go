package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
)

// loadText reads a configuration file with this text and no environment.
func loadText(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "aptix.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Options{File: file, LookupEnv: func(string) (string, bool) { return "", false }})
}

func TestAuth_FromTheFile(t *testing.T) {
	c, err := loadText(t, `
tls: {cert: c.pem, key: k.pem}
hosts: [api.example.com]
trustedProxies: [10.1.2.3/8, 192.0.2.7, "fd00::/8"]
auth:
  oidc:
    issuer: https://login.example.com/realm
    audience: aptix
    roleClaim: groups
    roles: {"https://x.example/admins": admin, ops: operator}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := config.OIDC{
		Issuer: "https://login.example.com/realm", Audience: "aptix", Algorithms: []string{"RS256"}, OrgClaim: "org", UserClaim: "sub",
		RoleClaim: "groups", Roles: map[string]agent.Role{"https://x.example/admins": agent.RoleAdmin, "ops": agent.RoleOperator},
	}
	if diff := cmp.Diff(want, c.Auth.OIDC); diff != "" {
		t.Errorf("auth.oidc (-want +got):\n%s", diff)
	}
	proxies, err := c.Proxies()
	if err != nil || !cmp.Equal(proxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("fd00::/8")},
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) {
		t.Errorf("proxies %v, %v", proxies, err)
	}
}

func TestAuth_Problems(t *testing.T) {
	const oidc = "auth:\n  oidc:\n    issuer: https://login.example.com\n    audience: aptix\n"
	for _, tt := range []struct{ text, want string }{
		{oidc + "    algorithms: [none]", `"none" is not taken`},
		{oidc + "    algorithms: [HS256]", `"HS256" is not taken`},
		{oidc + "    algorithms: [HS512, RS256]", `"HS512" is not taken`},
		{oidc + "    algorithms: [rs256]", `"rs256" is not taken`},
		{oidc + "    algorithms: []", "auth.oidc.algorithms: want at least one"},
		{oidc + "    orgClaim: ''", "auth.oidc.orgClaim: want"},
		{oidc + "    userClaim: ''", "auth.oidc.userClaim: want"},
		{oidc + "    roles: {a: admin}", "auth.oidc.roleClaim: want"},
		{oidc + "    roleClaim: r\n    roles: {a: boss}", `"boss" is unknown`},
		{oidc + "    secret: x", "unknown setting auth.oidc.secret"},
		{"auth: {oidc: {issuer: 'https://login.example.com'}}", "auth.oidc.audience: want"},
		{"auth: {oidc: {audience: aptix}}", "auth.oidc.issuer: want"},
		{"auth: {oidc: {issuer: login.example.com, audience: a}}", "auth.oidc.issuer: want"},
		{"auth: {oidc: {issuer: 'http://login.example.com', audience: a}}", "want https://"},
		{"auth: {oidc: {issuer: 'https://u:p@login.example.com', audience: a}}", "auth.oidc.issuer: want"},
		{"tls: {cert: c.pem}", "tls: want both"},
		{"tls: {key: k.pem}", "tls: want both"},
		{"hosts: ['*.example.com']", "is no host name"},
		{"hosts: ['example.com:80']", "is no host name"},
		{"trustedProxies: [example.com]", "is no network"},
		{"trustedProxies: ['::/0']", "is everybody"},
	} {
		if _, err := loadText(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.want)
		}
	}
}
