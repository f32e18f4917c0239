package aptix_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/aptixhq/aptix"
	"github.com/aptixhq/aptix/client"
)

type order struct {
	Number int `json:"number" jsonschema:"the number of the order"`
}

func orderStatus(_ context.Context, call aptix.Call, o order) (string, error) {
	if o.Number != 4711 {
		return "", fmt.Errorf("there is no order %d; ask %s for the number", o.Number, call.User)
	}
	return "packed, leaves today", nil
}

// A program with the server inside and a tool of its own. The offline model calls the tool
// when it is told to.
func Example() {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "aptix")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)

	server, err := aptix.New(ctx, aptix.Config{
		Data: data,
		Tools: []aptix.Tool{aptix.NewTool(aptix.ToolInfo{
			Name: "order_status", Description: "Says how far an order is.",
			Modes: []string{"general"}, Idempotent: true,
		}, orderStatus)},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	c, err := client.New(client.Config{URL: "http://" + listener.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Execute(ctx, client.UserTurn{Instruction: `call order_status {"number": 4711}`})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.PrimaryOutputText)

	if err := server.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("served until the end:", <-served)
	// Output:
	// `order_status` returned one line:
	//
	//     packed, leaves today
	//
	// I only asked for that: the call ran outside of me, and this is what came back.
	// served until the end: <nil>
}
