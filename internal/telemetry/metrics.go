package telemetry

import (
	"context"
	"io"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// metrics are all that is counted where it happens. What a server knows anyway is asked for
// with a scrape; see Gauges. No label ever names an organisation, a user, a session or
// anything else that a client chose.
type metrics struct {
	turns      *prometheus.CounterVec
	running    prometheus.Gauge
	resumed    prometheus.Counter
	added      prometheus.Histogram
	firstDelta *prometheus.HistogramVec
	calls      *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	tools      *prometheus.CounterVec
	requests   *prometheus.CounterVec
	streams    prometheus.Gauge
	cut        prometheus.Counter
	takeovers  prometheus.Counter
	leasesLost prometheus.Counter
	commits    prometheus.Histogram
	units      prometheus.Histogram
	deliveries *prometheus.CounterVec
}

// The bounds of histograms, in seconds: of what costs a turn a millisecond or so, and of
// what a model takes.
var (
	quick = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	slow  = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600}
)

func newMetrics() metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return metrics{
		turns:   counter("aptix_turns_total", "Turns that came to rest: waiting, completed, failed, cancelled. A turn that waits is counted each time.", "state", "mode"),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "aptix_turns_running", Help: "Turns that run in this process."}),
		resumed: prometheus.NewCounter(prometheus.CounterOpts{Name: "aptix_turns_resumed_total", Help: "Turns that were taken up from their journal, after a crash, a drain or from another node."}),
		added: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "aptix_turn_added_seconds",
			Help: "How long a turn ran without the time of its provider and its tools.", Buckets: quick}),
		firstDelta: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "aptix_model_first_delta_seconds",
			Help: "From a model request to the first piece of its text.", Buckets: slow}, []string{"provider", "model"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "aptix_model_call_seconds",
			Help: "From a model request to the end of its answer, other attempts included. The outcome is ok, or the code of the fault.", Buckets: slow}, []string{"provider", "model", "outcome"}),
		tokens: counter("aptix_tokens_total", "Tokens as the provider counts them. Cached ones are part of input, reasoning ones of output.", "direction", "model"),
		tools:  counter("aptix_tool_calls_total", "Results of tool calls. A tool that the turn does not have, and all of the clients', are other.", "tool", "outcome"),
		requests: counter("aptix_http_requests_total",
			"HTTP requests, by the pattern of their route.", "route", "status"),
		streams:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "aptix_streams_open", Help: "Event streams that are open."}),
		cut:        prometheus.NewCounter(prometheus.CounterOpts{Name: "aptix_readers_cut_total", Help: "Connections that were cut because their client took nothing for too long."}),
		takeovers:  prometheus.NewCounter(prometheus.CounterOpts{Name: "aptix_takeovers_total", Help: "Turns of other nodes that this node has taken over."}),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{Name: "aptix_leases_lost_total", Help: "Turns that ran here when another node got them."}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "aptix_store_commit_seconds",
			Help: "How long the store took to make a write durable.", Buckets: quick}),
		units: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "aptix_store_commit_units",
			Help: "How many units of writing shared a commit.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64}}),
		deliveries: counter("aptix_webhook_attempts_total", "Attempts to deliver a message to a webhook: delivered, pending (to be tried again), failed (given up).", "outcome"),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.turns, m.running, m.resumed, m.added, m.firstDelta, m.calls, m.tokens, m.tools, m.requests,
		m.streams, m.cut, m.takeovers, m.leasesLost, m.commits, m.units, m.deliveries}
}

func (t *Telemetry) register() {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aptix_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": t.Version, "goversion": runtime.Version()}}, func() float64 { return 1 })
	t.registry.MustRegister(append(t.metrics.all(), build)...)
}

// aboutProcess registers the collectors of the runtime and of the operating system, which
// take more memory than all others: a server that nobody scrapes is without.
func (t *Telemetry) aboutProcess() {
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Gauges are what a server knows anyway and is asked for with each scrape.
type Gauges struct {
	// Leases is how many leases this node holds.
	Leases func() int
	// Queued is how many turns wait for their session. Its error leaves the metric out.
	Queued func(context.Context) (int64, error)
	// Room is why nothing new can be written, nil when there is room.
	Room func() error
	// Spans are those that were exported, that could not be, and that were dropped because
	// too many waited.
	Spans func() (exported, failed, dropped int64)
}

// scrapeTime bounds what is asked of the store with a scrape.
const scrapeTime = time.Second

// Ask has the gauges asked with each scrape from now on. It is called once.
func (t *Telemetry) Ask(g Gauges) {
	t.registry.MustRegister(scraped{g})
}

// scraped is a collector of Gauges.
type scraped struct{ Gauges }

var (
	descLeases  = prometheus.NewDesc("aptix_leases_held", "Leases on turns that this node holds; 0 where it is alone.", nil, nil)
	descQueued  = prometheus.NewDesc("aptix_turns_queued", "Turns that wait for their session, of all nodes that share the store.", nil, nil)
	descStorage = prometheus.NewDesc("aptix_storage_full", "1 while nothing new is taken in because the disk is full.", nil, nil)
	descSpans   = prometheus.NewDesc("aptix_trace_spans_total", "Spans that were exported, that the collector did not take (failed), and that were dropped because too many waited.", []string{"outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (a scraped) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLeases, descQueued, descStorage, descSpans} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (a scraped) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(descLeases, float64(a.Leases()))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	if n, err := a.Queued(ctx); err == nil {
		gauge(descQueued, float64(n))
	}
	full := 0.0
	if a.Room() != nil {
		full = 1
	}
	gauge(descStorage, full)
	exported, failed, dropped := a.Spans()
	for outcome, n := range map[string]int64{"exported": exported, "failed": failed, "dropped": dropped} {
		to <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(n), outcome)
	}
}

// WriteMetrics writes all metrics in the text format of Prometheus.
func (t *Telemetry) WriteMetrics(w io.Writer) error {
	t.process.Do(t.aboutProcess)
	families, err := t.registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// MetricsType is the media type of what WriteMetrics writes.
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

// Request counts a request that was answered, by the pattern of its route; status 0 is one
// whose client has gone.
func (t *Telemetry) Request(route, status string) {
	if t == nil {
		return
	}
	if route == "" {
		route = other
	}
	t.metrics.requests.WithLabelValues(route, status).Inc()
}

// StreamOpened counts an event stream until StreamClosed.
func (t *Telemetry) StreamOpened() {
	if t != nil {
		t.metrics.streams.Inc()
	}
}

// StreamClosed counts it out.
func (t *Telemetry) StreamClosed() {
	if t != nil {
		t.metrics.streams.Dec()
	}
}

// ReaderCut counts a connection that was cut for the slowness of its client.
func (t *Telemetry) ReaderCut() {
	if t != nil {
		t.metrics.cut.Inc()
	}
}

// TakenOver counts a turn that came from another node.
func (t *Telemetry) TakenOver() {
	if t != nil {
		t.metrics.takeovers.Inc()
	}
}

// LeaseLost counts a turn that went to another node.
func (t *Telemetry) LeaseLost() {
	if t != nil {
		t.metrics.leasesLost.Inc()
	}
}

// Committed notes a commit of the store.
func (t *Telemetry) Committed(took time.Duration, units int) {
	if t != nil {
		t.metrics.commits.Observe(took.Seconds())
		t.metrics.units.Observe(float64(units))
	}
}
