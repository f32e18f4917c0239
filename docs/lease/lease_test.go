// Package lease_test checks the model of the lease in this folder.
package lease_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// verify makes a checker of the model, with the given switches of the model and of the
// checker, and runs it. It returns what the checker says.
func verify(t *testing.T, switches, options, arguments []string) string {
	t.Helper()
	for _, tool := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("APTIX_REQUIRE_SPIN") != "" {
				t.Fatal(err)
			}
			t.Skip("the model needs Spin and a C compiler: ", err)
		}
	}
	model, err := filepath.Abs("lease.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	run("spin", append(append([]string{"-a"}, switches...), model)...)
	run("cc", append(append([]string{"-O2", "-w"}, options...), "-o", "pan", "pan.c")...)
	return run(filepath.Join(dir, "pan"), arguments...)
}

var errorsFound = regexp.MustCompile(`errors: (\d+)`)

func found(t *testing.T, report string) string {
	t.Helper()
	m := errorsFound.FindStringSubmatch(report)
	if m == nil || strings.Contains(report, "max search depth too small") {
		t.Fatalf("the search did not come to its end:\n%s", report)
	}
	return m[1]
}

var (
	safety   = []string{"-DSAFETY", "-DNOCLAIM"}
	liveness = []string{"-DNFAIR=3"} // weak fairness among the nodes and the clock
)

func TestLease_NoLateWriteAndNoToolTwice(t *testing.T) {
	t.Parallel()
	if report := verify(t, nil, safety, []string{"-m100000"}); found(t, report) != "0" {
		t.Errorf("the model does not hold:\n%s", report)
	}
}

func TestLease_EveryTurnEnds(t *testing.T) {
	t.Parallel()
	if report := verify(t, nil, liveness, []string{"-a", "-f", "-m1000000"}); found(t, report) != "0" {
		t.Errorf("the model does not hold:\n%s", report)
	}
}

// A model that cannot be broken says nothing.
func TestLease_TheClaimsCanFail(t *testing.T) {
	for _, tt := range []struct{ without, want string }{
		{"UNFENCED", "assertion violated (mine>=newest)"},
		{"EAGER", "assertion violated (toolRuns<=1)"},
	} {
		t.Run(tt.without, func(t *testing.T) {
			t.Parallel()
			report := verify(t, []string{"-D" + tt.without}, safety, []string{"-E", "-m100000"})
			if !strings.Contains(report, tt.want) {
				t.Errorf("got\n%s\nwant %s", report, tt.want)
			}
		})
	}
}
