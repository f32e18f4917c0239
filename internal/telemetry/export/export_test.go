package export_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/telemetry/export"
	"github.com/aptixhq/aptix/internal/telemetry/otlptest"
)

func start(t *testing.T, c export.Config) *export.Exporter {
	t.Helper()
	x, err := export.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close(context.Background()) })
	return x
}

func spans(x *export.Exporter, n int) {
	for range n {
		_, span := x.Tracer().Start(context.Background(), "s")
		span.End()
	}
}

func wantCounts(t *testing.T, x *export.Exporter, want ...int64) {
	t.Helper()
	exported, failed, dropped := x.Counts()
	if got := []int64{exported, failed, dropped}; !slices.Equal(got, want) {
		t.Errorf("exported, failed, dropped are %v, want %v", got, want)
	}
}

// An address that is not public will do, since the operator named it; headers go along.
func TestExport_ToACollector(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		collector := otlptest.Start(t)
		x := start(t, export.Config{URL: export.TracesURL(collector.URL + "/"), Gzip: gzip, Version: "v1", Headers: map[string]secret.Text{"X-Key": secret.New("k")}})
		spans(x, 3)
		if err := x.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(collector.Spans()); got != 3 {
			t.Errorf("%d spans came, want 3", got)
		}
		if got := collector.Headers()[0].Get("X-Key"); got != "k" {
			t.Errorf("header X-Key is %q", got)
		}
		wantCounts(t, x, 3, 0, 0)
	}
}

// What finds the queue full is dropped at once, and counted.
func TestExport_QueueIsBounded(t *testing.T) {
	collector := otlptest.Start(t)
	x := start(t, export.Config{URL: export.TracesURL(collector.URL), Queue: 4, Every: time.Hour})
	collector.Hold()
	spans(x, 100)
	collector.LetGo()
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	exported, failed, dropped := x.Counts()
	if exported+dropped != 100 || failed != 0 || dropped < 90 {
		t.Errorf("exported %d, failed %d, dropped %d of 100", exported, failed, dropped)
	}
}

// A collector that is busy is asked again; one that refuses is not. The log hears of it once.
func TestExport_CollectorSaysNo(t *testing.T) {
	collector := otlptest.Start(t)
	var complaints atomic.Int64
	x := start(t, export.Config{URL: export.TracesURL(collector.URL), Complain: func(error) { complaints.Add(1) }})
	collector.Refuse(http.StatusBadRequest)
	for range 2 {
		spans(x, 1)
		if err := x.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantCounts(t, x, 0, 2, 0)
	if got := complaints.Load(); got != 1 {
		t.Errorf("%d complaints, want 1", got)
	}
	if got := collector.Asked(); got != 2 {
		t.Errorf("it was asked %d times, want 2", got)
	}
	collector.Refuse(http.StatusServiceUnavailable)
	time.AfterFunc(100*time.Millisecond, func() { collector.Refuse(0) })
	spans(x, 1)
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, x, 1, 2, 0)
}

func TestNew_WantsAnAddress(t *testing.T) {
	for _, url := range []string{"", "collector", "http://", "://"} {
		if _, err := export.New(export.Config{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
