package main

import (
	"fmt"
	"os"
	"testing"
)

// TestMain lets the test binary play the model and the floors, as the program does, and
// an aptix that does not start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if known, err := play(os.Args[1], os.Args[2:], os.Stdout); known {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if os.Args[1] == "serve" {
			fmt.Fprintln(os.Stderr, "not today")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
