package config_test

import (
	"strings"
	"testing"
)

func TestLoad_Outbound(t *testing.T) {
	c, err := load(t, "outbound: {allow: [10.1.0.0/16, hooks.internal]}", nil, nil)
	if got := shown(must(t, c, err))["outbound.allow"]; got != "10.1.0.0/16, hooks.internal · file aptix.yaml" {
		t.Errorf("got %s", got)
	}
	if _, err := c.Outbound.Allowlist(); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{
		"outbound: {allow: ['http://hooks.internal']}": `outbound.allow: "http://hooks.internal": want a network`,
		"outbound: {allow: 10.0.0.0/8}":                "outbound.allow",
		"outbound: {deny: []}":                         "unknown setting outbound.deny",
	} {
		if _, err := load(t, file, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}

func TestLoad_WrongSecretsAreNotRepeated(t *testing.T) {
	for _, file := range []string{"openai: {apiKey: 4711471147}", "database: [4711471147]", "nats: {a: 4711471147}", "embeddings: {apiKey: 4711471147}"} {
		_, err := load(t, file, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "want text") || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: got %v", file, err)
		}
	}
}

func TestSettings_NATSWithoutWhoItNames(t *testing.T) {
	for value, want := range map[string]string{
		"nats://h:4222":                      "nats://h:4222",
		"nats://s3cret@h:4222":               "nats://h:4222",
		"nats://u:s3cret@h:4222":             "nats://h:4222",
		"nats://u:s3cret@a:1,nats://u:p@b:2": "nats://a:1,nats://b:2",
		"s3cret@a:1, u:s3cret@b":             "nats://a:1,nats://b",
		"nats://u:s3%cret@a:1":               "***",
		"nats://h?token=s3cret":              "nats://h?***",
	} {
		c, err := load(t, "", map[string]string{"APTIX_NATS": value}, map[string]string{"database": "postgres://h/d"})
		if got := strings.TrimSuffix(shown(must(t, c, err))["nats"], " · env APTIX_NATS"); got != want {
			t.Errorf("%s: shown as %q, want %q", value, got, want)
		}
	}
}
