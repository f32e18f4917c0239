// Command ran reads the output of go test -json and fails when a test that
// docs/acceptance.md names did not run and pass. It ends with the counts of the run.
//
//	go run ./internal/acceptance/ran [-strict] test.json
//
// With -strict a skipped test and a warning of a test fail too: that is how CI finds
// a suite that quietly did not run. It has no part in a turn.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/aptixhq/aptix/internal/acceptance"
	"github.com/aptixhq/aptix/internal/house"
)

func main() {
	strict := flag.Bool("strict", false, "fail on skipped tests and on warnings of tests")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: ran [-strict] test.json")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ok, err := run(flag.Arg(0), *strict)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ran:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(file string, strict bool) (bool, error) {
	root, err := house.Root()
	if err != nil {
		return false, err
	}
	output, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer output.Close() // only read: nothing can be lost
	return check(os.Stdout, os.DirFS(root), output, strict)
}

// check reports whether the recorded output is that of a run to trust, and writes
// why not.
func check(w io.Writer, tree fs.FS, output io.Reader, strict bool) (bool, error) {
	module, err := house.Module(tree)
	if err != nil {
		return false, err
	}
	table, err := fs.ReadFile(tree, "docs/acceptance.md")
	if err != nil {
		return false, err
	}
	claims, err := acceptance.ReadTable(string(table))
	if err != nil {
		return false, err
	}
	if len(claims) == 0 {
		return false, errors.New("docs/acceptance.md names no tests")
	}
	run, err := acceptance.ReadRun(output)
	if err != nil {
		return false, err
	}

	skips, unproved := run.Skips(), run.Unproved(module, claims)
	list(w, "SKIPPED", skips)
	list(w, "WARNING", run.Warnings)
	list(w, "NOT PROVED", unproved)
	ok := run.Failed == 0 && len(unproved) == 0
	if strict && len(skips)+len(run.Warnings) > 0 {
		fmt.Fprintln(w, "Here a skipped test or a warning is a failure: every suite has to run.")
		ok = false
	}
	fmt.Fprintf(w, "%d of the %d claims in docs/acceptance.md are borne out by this run\n", len(claims)-len(unproved), len(claims))
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", run.Passed, run.Failed, run.Skipped)
	return ok, nil
}

func list(w io.Writer, label string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s  %s\n", label, line)
	}
}
