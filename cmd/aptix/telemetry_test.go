package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	labels "github.com/prometheus/common/model"

	"github.com/aptixhq/aptix/internal/house"
)

// scrape reads the metrics of a server as Prometheus does.
func (s *canaryServer) scrape() map[string]*dto.MetricFamily {
	s.c.t.Helper()
	res, err := s.send("GET", "/metrics", "")
	if err != nil {
		s.c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got := expfmt.ResponseFormat(res.Header); got.FormatType() != expfmt.TypeTextPlain || res.StatusCode != http.StatusOK {
		s.c.t.Fatalf("got %d %s", res.StatusCode, got)
	}
	parser := expfmt.NewTextParser(labels.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		s.c.t.Fatal(err)
	}
	return families
}

// busy has a server do all that is counted, and returns what it then counts.
func busy(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	s := c.serve()
	s.do("POST", "/v1/agent/execute", c.turn("m1", "do:local-tool"))
	s.do("POST", "/v1/responses", `{"model":"default","stream":true,"input":"do:ok"}`)
	var hook struct {
		ID string `json:"webhookId"`
	}
	made := s.do("POST", "/v1/webhooks", `{"url":"https://hooks.invalid/","events":["turn.completed"]}`)
	if err := json.Unmarshal([]byte(made), &hook); err != nil {
		t.Fatalf("%v: %s", err, made)
	}
	s.do("POST", "/v1/webhooks/"+hook.ID+"/test", "")
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		families := s.scrape()
		if families["aptix_webhook_attempts_total"] != nil {
			s.end(t, syscall.SIGINT)
			return families
		}
		if time.Since(began) > within {
			t.Fatalf("no webhook was tried: %s", made)
		}
	}
}

// TestMetrics_AreDocumentedAndDrawn: what docs/telemetry.md lists and what a scrape has are
// the same, and the dashboard draws nothing that is not there.
func TestMetrics_AreDocumentedAndDrawn(t *testing.T) {
	families := busy(t)
	doc, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := house.Rows(string(doc), "Metric", "Type", "Labels", "What it is")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range rows {
		name := strings.Trim(row.Cells[0], "`")
		documented[name] = true
		f := families[name]
		if f == nil {
			t.Errorf("docs/telemetry.md:%d: no scrape has %s", row.Line, name)
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != row.Cells[1] {
			t.Errorf("%s is a %s, documented as a %s", name, got, row.Cells[1])
		}
		var has []string
		for _, l := range f.Metric[0].Label {
			has = append(has, l.GetName())
		}
		want := strings.FieldsFunc(row.Cells[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(has)
		slices.Sort(want)
		if fmt.Sprint(has) != fmt.Sprint(want) {
			t.Errorf("%s has labels %v, documented as %v", name, has, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if strings.HasPrefix(name, "aptix_") && !documented[name] {
			t.Errorf("%s is not in docs/telemetry.md", name)
		}
	}
	drawn := 0
	for _, expr := range expressions(t, "../../deploy/grafana/aptix.json") {
		for _, name := range regexp.MustCompile(`\b(aptix|go|process)_[a-z_]+`).FindAllString(expr, -1) {
			drawn++
			whole := families[name] != nil
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				base, cut := strings.CutSuffix(name, part)
				whole = whole || cut && families[base].GetType() == dto.MetricType_HISTOGRAM
			}
			if !whole {
				t.Errorf("the dashboard draws %s, which no scrape has: %s", name, expr)
			}
			delete(documented, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count"))
		}
	}
	if drawn < 20 || len(documented) > 0 {
		t.Errorf("the dashboard draws %d metrics, and not %v", drawn, slices.Sorted(maps.Keys(documented)))
	}
}

// expressions returns the queries of a dashboard, those of its variables included.
func expressions(t *testing.T, file string) (out []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Error("a panel draws nothing")
		}
		for _, target := range p.Targets {
			out = append(out, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		out = append(out, v.Definition)
	}
	return out
}
