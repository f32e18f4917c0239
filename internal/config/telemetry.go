package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/telemetry/export"
)

// Telemetry says where traces go. Without an endpoint none are made.
type Telemetry struct {
	OTLP OTLP `koanf:"otlp"`
	// Content lets spans hold what people, models and tools wrote.
	Content bool `koanf:"content"`
}

// OTLP is a collector that takes OTLP over HTTP, with protobuf. The standard variables of
// OpenTelemetry, OTEL_EXPORTER_OTLP_*, set the same.
type OTLP struct {
	// Endpoint is the root of the collector, to which /v1/traces is added; TracesEndpoint is
	// the whole address, and goes before it.
	Endpoint       string `koanf:"endpoint"`
	TracesEndpoint string `koanf:"tracesEndpoint"`
	// Protocol can only be http/protobuf.
	Protocol string `koanf:"protocol"`
	// Compression is gzip or none.
	Compression string `koanf:"compression"`
	// Headers go with each export.
	Headers []Header `koanf:"headers"`

	// fromEnv are the headers that the environment names.
	fromEnv map[string]secret.Text
	timeout time.Duration
	off     bool
}

// Metrics configures a listener that has the metrics alone.
type Metrics struct {
	// Listen is its address, host:port; without a host it is the loopback address. Nobody
	// authenticates there.
	Listen string `koanf:"listen"`
}

// protocolHTTP is the one protocol in which spans are sent.
const protocolHTTP = "http/protobuf"

// Configured reports whether traces are exported.
func (o OTLP) Configured() bool { return !o.off && o.url() != "" }

func (o OTLP) url() string {
	if o.TracesEndpoint != "" || o.Endpoint == "" {
		return o.TracesEndpoint
	}
	return export.TracesURL(o.Endpoint)
}

// Export returns what package export wants to know.
func (t Telemetry) Export() export.Config {
	headers := map[string]secret.Text{}
	for name, value := range t.OTLP.fromEnv {
		headers[name] = value
	}
	for _, h := range t.OTLP.Headers {
		headers[h.Name] = secret.New(h.Prefix + h.Value.Reveal())
	}
	return export.Config{URL: t.OTLP.url(), Headers: headers, Gzip: t.OTLP.Compression == "gzip", Timeout: t.OTLP.timeout}
}

// read fetches the values of the headers, and what the environment alone can say.
func (o *OTLP) read(env environment) Problems {
	var p Problems
	for i := range o.Headers {
		if err := o.Headers[i].read(env); err != nil {
			p = append(p, fmt.Sprintf("telemetry.otlp.headers[%d]: %v", i, err))
		}
	}
	o.fromEnv = map[string]secret.Text{}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if err := o.readList(env.get(name)); err != nil {
			p = append(p, name+": "+err.Error())
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"} {
		text := env.get(name)
		if text == "" {
			continue
		}
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			p = append(p, name+": want a number of milliseconds")
		}
		o.timeout = time.Duration(ms) * time.Millisecond
	}
	o.off = strings.EqualFold(env.get("OTEL_SDK_DISABLED"), "true") || env.get("OTEL_TRACES_EXPORTER") == "none"
	return p
}

// readList reads headers as OpenTelemetry writes them in a variable: name=value, with commas
// between them, what is special in a value written as %XX. The error says nothing of them.
func (o *OTLP) readList(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" || strings.ContainsAny(name, ": \t\r\n") || strings.ContainsAny(decoded, "\r\n") {
			return fmt.Errorf("want name=value, with commas between them, and what is special written as %%XX")
		}
		o.fromEnv[name] = secret.New(decoded)
	}
	return nil
}

// telemetryProblems returns what is wrong with the settings of traces and metrics.
func (c Config) telemetryProblems() Problems {
	var p Problems
	for _, at := range []struct{ key, url string }{
		{"telemetry.otlp.endpoint", c.Telemetry.OTLP.Endpoint}, {"telemetry.otlp.tracesEndpoint", c.Telemetry.OTLP.TracesEndpoint},
	} {
		if at.url == "" {
			continue
		}
		if u, err := url.Parse(at.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			p = append(p, at.key+": want http:// or https:// and a host, such as http://127.0.0.1:4318; a credential goes into telemetry.otlp.headers")
		}
	}
	if o := c.Telemetry.OTLP; o.Configured() && o.Protocol != "" && o.Protocol != protocolHTTP {
		p = append(p, fmt.Sprintf("telemetry.otlp.protocol: want %s, which collectors take at port 4318; there is no gRPC here", protocolHTTP))
	}
	switch c.Telemetry.OTLP.Compression {
	case "", "none", "gzip":
	default:
		p = append(p, "telemetry.otlp.compression: want gzip or none")
	}
	if at := c.Metrics.Listen; at != "" {
		if _, port, err := net.SplitHostPort(at); err != nil || port == "" {
			p = append(p, "metrics.listen: want HOST:PORT, such as 127.0.0.1:9464")
		}
	}
	return p
}

func telemetrySettings() []setting {
	endpoint := func(url string) string { return address(secret.New(url)) }
	return []setting{
		{key: "telemetry.otlp.endpoint", env: "OTEL_EXPORTER_OTLP_ENDPOINT", show: func(c Config) string { return endpoint(c.Telemetry.OTLP.Endpoint) }},
		{key: "telemetry.otlp.tracesEndpoint", env: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", show: func(c Config) string { return endpoint(c.Telemetry.OTLP.TracesEndpoint) }},
		{key: "telemetry.otlp.protocol", env: "OTEL_EXPORTER_OTLP_PROTOCOL", show: func(c Config) string { return c.Telemetry.OTLP.Protocol }},
		{key: "telemetry.otlp.compression", env: "OTEL_EXPORTER_OTLP_COMPRESSION", show: func(c Config) string { return c.Telemetry.OTLP.Compression }},
		{key: "telemetry.content", show: func(c Config) string {
			if !c.Telemetry.Content {
				return ""
			}
			return "true"
		}},
		{key: "metrics.listen", env: "APTIX_METRICS_LISTEN", show: func(c Config) string { return c.Metrics.Listen }},
	}
}
