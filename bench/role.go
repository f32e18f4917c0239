package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/bench/floor"
	"github.com/aptixhq/aptix/bench/mock"
)

// play serves as the model or as a floor until the process is ended; known is false when
// there is no such role.
func play(name string, args []string, stdout io.Writer) (known bool, err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "address to listen on")
	var handler func() (http.Handler, error)
	switch name {
	case "mock":
		var cfg mock.Config
		f.IntVar(&cfg.Tokens, "tokens", 20, "tokens of an answer")
		f.DurationVar(&cfg.Wait, "wait", 0, "time to the first token")
		f.DurationVar(&cfg.Gap, "gap", 0, "time between two tokens")
		handler = func() (http.Handler, error) { return mock.New(cfg) }
	case "proxy":
		model := f.String("model", "", "address of the model, without /v1")
		handler = func() (http.Handler, error) {
			u, err := url.Parse(*model)
			return floor.Proxy(u), err
		}
	case "floor":
		var cfg floor.Config
		f.StringVar(&cfg.Model, "model", "", "address of the model, without /v1")
		f.StringVar(&cfg.DB, "db", "floor.db", "database, which is made")
		f.BoolVar(&cfg.Group, "group", false, "let turns share a commit")
		handler = func() (http.Handler, error) { return floor.New(cfg) }
	default:
		return false, nil
	}
	if err := f.Parse(args); err != nil {
		return true, err
	}
	h, err := handler()
	if err != nil {
		return true, err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return true, err
	}
	if _, err := fmt.Fprintf(stdout, "%s is ready at http://%s\n", name, l.Addr()); err != nil {
		return true, err
	}
	web := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return true, web.Serve(l)
}
