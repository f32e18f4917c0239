package acceptance_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/acceptance"
)

// output is what go test -json prints, without the members that nobody reads.
const output = `
{"Action":"start","Package":"m/internal/a"}
{"Action":"run","Package":"m/internal/a","Test":"TestGood"}
{"Action":"attr","Package":"m/internal/a","Test":"TestGood","Key":"proves","Value":"R-1"}
{"Action":"output","Package":"m/internal/a","Test":"TestGood","Output":"    a_test.go:9: WARNING: no schema\n"}
{"Action":"output","Package":"m/internal/a","Test":"TestGood","Output":"    a_test.go:9: WARNING: no schema\n"}
{"Action":"attr","Package":"m/internal/a","Test":"TestGood/sub","Key":"proves","Value":"R-2"}
{"Action":"pass","Package":"m/internal/a","Test":"TestGood/sub"}
{"Action":"attr","Package":"m/internal/a","Test":"TestGood/shy","Key":"proves","Value":"R-3"}
{"Action":"output","Package":"m/internal/a","Test":"TestGood/shy","Output":"    a_test.go:12: not on this system\n"}
{"Action":"output","Package":"m/internal/a","Test":"TestGood/shy","Output":"--- SKIP: TestGood/shy (0.00s)\n"}
{"Action":"skip","Package":"m/internal/a","Test":"TestGood/shy"}
{"Action":"attr","Package":"m/internal/a","Test":"TestGood","Key":"colour","Value":"R-4"}
{"Action":"pass","Package":"m/internal/a","Test":"TestGood"}
{"Action":"attr","Package":"m/internal/a","Test":"TestGoodToo","Key":"proves","Value":"R-5"}
{"Action":"pass","Package":"m/internal/a","Test":"TestGoodToo"}
{"Action":"attr","Package":"m/internal/a","Test":"TestBad","Key":"proves","Value":"R-1"}
{"Action":"fail","Package":"m/internal/a","Test":"TestBad"}
{"Action":"run","Package":"m/internal/a","Test":"TestHung"}
{"Action":"fail","Package":"m/internal/a"}
{"Action":"attr","Package":"m/internal/b","Test":"TestTurns/consent","Key":"proves","Value":"R-1"}
{"Action":"pass","Package":"m/internal/b","Test":"TestTurns/consent"}
{"Action":"pass","Package":"m/internal/b","Test":"TestTurns"}
{"Action":"pass","Package":"m/internal/b"}
{"Action":"fail","Package":"m/internal/broken"}
`

func read(t *testing.T) acceptance.Run {
	t.Helper()
	run, err := acceptance.ReadRun(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestRun_Counts(t *testing.T) {
	run := read(t)
	got := [3]int{run.Passed, run.Failed, run.Skipped}
	// The second failure is the package that did not compile.
	if want := [3]int{5, 2, 1}; got != want {
		t.Errorf("passed, failed, skipped = %v, want %v", got, want)
	}
	if diff := cmp.Diff(run.Skips(), []string{"m/internal/a TestGood/shy: not on this system"}); diff != "" {
		t.Errorf("skips: -got +want\n%s", diff)
	}
	if diff := cmp.Diff(run.Warnings, []string{"no schema"}); diff != "" {
		t.Errorf("warnings: -got +want\n%s", diff)
	}
}

func TestRun_Unproved(t *testing.T) {
	tests := []struct{ name, rule, dir, test, want string }{
		{"proved by the test", "R-1", "internal/a", "TestGood", ""},
		{"proved by a subtest", "R-2", "internal/a", "TestGood", ""},
		{"proved by a scenario", "R-1", "internal/b", "TestTurns/consent", ""},
		{"the scenario's runner ran it", "R-1", "internal/b", "TestTurns", ""},
		{"the subtest was skipped", "R-3", "internal/a", "TestGood",
			"internal/a: TestGood passed without reaching the place where it proves R-3"},
		{"another attribute", "R-4", "internal/a", "TestGood",
			"internal/a: TestGood passed without reaching the place where it proves R-4"},
		{"a test whose name begins alike", "R-5", "internal/a", "TestGood",
			"internal/a: TestGood passed without reaching the place where it proves R-5"},
		{"failed", "R-1", "internal/a", "TestBad", "internal/a: TestBad: fail, and is to prove R-1"},
		{"skipped", "R-3", "internal/a", "TestGood/shy", "internal/a: TestGood/shy: skip, and is to prove R-3"},
		{"never ended", "R-1", "internal/a", "TestHung", "internal/a: TestHung did not run, and is to prove R-1"},
		{"not there", "R-1", "internal/b", "TestGood", "internal/b: TestGood did not run, and is to prove R-1"},
	}
	run := read(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claim := acceptance.Claim{Rule: tt.rule, Test: acceptance.Test{Dir: tt.dir, Name: tt.test}}
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			if diff := cmp.Diff(run.Unproved("m", []acceptance.Claim{claim}), want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestReadRun_NotJSON(t *testing.T) {
	if run, err := acceptance.ReadRun(strings.NewReader("FAIL\n")); err == nil {
		t.Errorf("ReadRun() = %+v, want an error", run)
	}
}
