package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func loadWith(t *testing.T, file string, env map[string]string) (Config, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "aptix.yaml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Options{File: name, LookupEnv: func(key string) (string, bool) {
		v, ok := env[key]
		return v, ok
	}})
}

func TestTelemetry_WhereTracesGo(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		url        string // "" is nowhere
	}{
		{"by default", "", nil, ""},
		{"the file", "telemetry: {otlp: {endpoint: 'http://127.0.0.1:4318/'}}", nil, "http://127.0.0.1:4318/v1/traces"},
		{"the environment", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example"}, "https://c.example/v1/traces"},
		{"the environment goes first", "telemetry: {otlp: {endpoint: 'http://127.0.0.1:4318'}}", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example"}, "https://c.example/v1/traces"},
		{"the whole address", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://t.example/x"}, "https://t.example/x"},
		{"switched off", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example", "OTEL_SDK_DISABLED": "true"}, ""},
		{"no exporter", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example", "OTEL_TRACES_EXPORTER": "none"}, ""},
		{"gRPC, which is switched off", "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SDK_DISABLED": "true"}, ""},
	} {
		c, err := loadWith(t, tt.file, tt.env)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := ""
		if c.Telemetry.OTLP.Configured() {
			got = c.Telemetry.Export().URL
		}
		if got != tt.url {
			t.Errorf("%s: traces go to %q, want %q", tt.name, got, tt.url)
		}
	}
}

func TestTelemetry_HeadersAreSecrets(t *testing.T) {
	c, err := loadWith(t, "telemetry: {otlp: {endpoint: 'http://c', compression: gzip, headers: [{name: Authorization, prefix: 'Bearer ', env: TOKEN}]}}",
		map[string]string{"TOKEN": "canary-1", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=canary%2C2, y = 3", "OTEL_EXPORTER_OTLP_TIMEOUT": "1500"})
	if err != nil {
		t.Fatal(err)
	}
	to := c.Telemetry.Export()
	for name, want := range map[string]string{"Authorization": "Bearer canary-1", "x-key": "canary,2", "y": "3"} {
		if got := to.Headers[name]; got.Reveal() != want {
			t.Errorf("header %s is %q, want %q", name, got.Reveal(), want)
		}
	}
	if !to.Gzip || to.Timeout != 1500*time.Millisecond {
		t.Errorf("got gzip %v, timeout %s", to.Gzip, to.Timeout)
	}
	for _, s := range c.Settings() {
		if strings.Contains(s.Value, "canary") {
			t.Errorf("setting %s shows %s", s.Key, s.Value)
		}
	}
	c, err = loadWith(t, "telemetry: {otlp: {endpoint: 'http://c', headers: [{name: A, env: NOWHERE}]}}", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSecrets(); err == nil || !strings.Contains(err.Error(), "telemetry.otlp.headers[0]") {
		t.Errorf("a header without a value: %v", err)
	}
}

func TestTelemetry_Problems(t *testing.T) {
	for _, tt := range []struct {
		file string
		env  map[string]string
		want string
	}{
		{"telemetry: {otlp: {endpoint: '127.0.0.1:4318'}}", nil, "telemetry.otlp.endpoint: want http://"},
		{"telemetry: {otlp: {endpoint: 'http://user:canary@c'}}", nil, "a credential goes into telemetry.otlp.headers"},
		{"telemetry: {otlp: {tracesEndpoint: 'ftp://c'}}", nil, "telemetry.otlp.tracesEndpoint: want http://"},
		{"telemetry: {otlp: {compression: zstd}}", nil, "telemetry.otlp.compression: want gzip or none"},
		{"telemetry: {content: 'yes'}", nil, "content"},
		{"metrics: {listen: '9464'}", nil, "metrics.listen: want HOST:PORT"},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "there is no gRPC here"},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "canary"}, "OTEL_EXPORTER_OTLP_HEADERS: want name=value"},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT: want a number of milliseconds"},
	} {
		_, err := loadWith(t, tt.file, tt.env)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s %v: got %v, want %q", tt.file, tt.env, err, tt.want)
		}
	}
}
