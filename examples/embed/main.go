// Command embed is a small web program with an Aptix server inside: a mode of its own and a
// tool that is a Go function of it. Run it and ask:
//
//	go run ./examples/embed
//	aptix ask --mode orders 'call order_status {"number": 4711}'
//
// With OPENAI_API_KEY set a real model answers, and finds out by itself when to call.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aptixhq/aptix"
)

//go:embed modes
var files embed.FS

// orders stands for what the program is about.
var orders = map[int]string{4711: "packed, leaves today", 4712: "waits for its payment"}

type order struct {
	Number int `json:"number" jsonschema:"the number of the order"`
}

func orderStatus(_ context.Context, _ aptix.Call, o order) (string, error) {
	status, ok := orders[o.Number]
	if !ok {
		return "", fmt.Errorf("there is no order %d; ask the user for the number on the invoice", o.Number)
	}
	return status, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	data := flag.String("data", "aptix-data", "folder of the data file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, listener, *data)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listener net.Listener, data string) error {
	modes, err := fs.Sub(files, "modes")
	if err != nil {
		return err
	}
	agents, err := aptix.New(ctx, aptix.Config{
		Data: data, Modes: modes, LookupEnv: os.LookupEnv,
		// modes/orders.yaml lists the tool; another mode does not have it.
		Tools: []aptix.Tool{aptix.NewTool(aptix.ToolInfo{
			Name: "order_status", Description: "Says how far an order is.",
			Usage: "Use it whenever the user asks about an order.", Idempotent: true,
		}, orderStatus)},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	// What of the program is not the agents' stands beside them.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shop/orders", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, len(orders), "orders") })
	mux.Handle("/", agents.Handler())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	log.Printf("the shop is open at http://%s/shop/orders", listener.Addr())
	// For the eyes of whoever started it, and for no file: it opens the console.
	fmt.Printf("Its agents: http://%s/?token=%s\n", listener.Addr(), string(agents.ConsoleToken()))
	if token := agents.ConsoleToken(); token != "" { // until there is an API key
		log.Printf("what the agent does is at http://%s/?token=%s", listener.Addr(), string(token))
	}

	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// Turns that run get half a minute; what is left of them goes on at the next start.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, agents.Close(closing), web.Shutdown(closing))
}
