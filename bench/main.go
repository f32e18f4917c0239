// Command bench measures what Aptix adds to a call of the model, beside the least that
// any server could add: `go run ./bench`. It builds aptix, starts it with a model that
// costs nothing and with the floors, sends turns to all of them in turn, prints one
// table, and leaves nothing behind. It is a program of its own and no part of aptix.
//
// Started as `bench mock`, `bench proxy` or `bench floor` it is one of those servers;
// see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := command(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command() error {
	args := os.Args[1:]
	if len(args) > 0 {
		if known, err := play(args[0], args[1:], os.Stdout); known {
			return err
		}
	}
	o, err := flags(args, os.Stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o, os.Stdout, os.Stderr)
}
