package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// table writes the results as one Markdown table. What was not measured is a dash.
func table(w io.Writer, results []result) error {
	rows := [][]string{
		{"Scenario", "Server", "p50 ms", "p99 ms", "added p50 ms", "turns/s", "CPU ms/turn", "driver's", "RSS MB idle / peak", "Measured", "Goals"},
		{"---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "---", "---"},
	}
	for _, r := range results {
		var goals []string
		for _, g := range r.goals {
			goals = append(goals, g.String())
		}
		rows = append(rows, []string{
			r.scenario, r.server, milliseconds(r.p50), milliseconds(r.p99), milliseconds(r.added), dash(r.rate, "%.0f"),
			milliseconds(r.cpu), milliseconds(r.driver), dash(megabytes(r.idle), "%.0f") + " / " + dash(megabytes(r.peak), "%.0f"),
			strings.Join(r.notes, "; "), strings.Join(goals, "; "),
		})
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String says what was measured, what was wanted, and whether that is met.
func (g goal) String() string {
	sign, verdict := "≤", "met"
	if g.atLeast {
		sign = "≥"
	}
	if !g.met() {
		verdict = "**missed**"
	}
	if g.got <= 0 {
		return fmt.Sprintf("%s n/a (%s %g%s)", g.what, sign, g.want, g.unit)
	}
	return fmt.Sprintf("%s %.3g%s (%s %g%s, %s)", g.what, g.got, g.unit, sign, g.want, g.unit, verdict)
}

func dash(v float64, format string) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

func milliseconds(d time.Duration) string {
	return dash(float64(d.Microseconds())/1000, "%.2f")
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
