// Command client is a program that uses an Aptix server: it asks in a mode, shows the answer
// as it comes, and runs a tool of its own where the model asks for it. With 'aptix serve' in
// another terminal:
//
//	go run ./examples/client 'call stock {"item": "tea"}'
//	go run ./examples/client -mode ddr_authoring "Which decision is it?"
//
// With OPENAI_API_KEY set at the server a real model answers, and finds out by itself when to
// call.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/aptixhq/aptix/client"
)

func main() {
	url := flag.String("url", client.DefaultURL, "address of the server")
	mode := flag.String("mode", "general", "mode of the session")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(client.Config{URL: *url, APIKey: os.Getenv("APTIX_API_KEY")})
	if err == nil {
		err = run(ctx, c, *mode, strings.Join(flag.Args(), " "), os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// stock is what the tool knows.
var stock = map[string]int{"tea": 12, "coffee": 0}

// tools are what this program can do for the model.
var tools = []client.Tool{{
	Type: "function", Name: "stock", Description: "Says how many pieces of an item are there.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"item":{"type":"string"}},"required":["item"],"additionalProperties":false}`),
}}

// run asks one question in a session of its own. The stream goes on over lost connections and
// restarts of the server by itself.
func run(ctx context.Context, c *client.Client, mode, question string, out io.Writer) error {
	s, err := c.CreateSession(ctx, client.NewSession{Mode: mode, Tools: tools})
	if err != nil {
		return err
	}
	turn := client.UserTurn{SessionID: s.SessionID, TurnID: client.NewID(), Instruction: question}
	for events := c.Stream(ctx, turn); events != nil; {
		var waiting []client.ToolCall
		for e, err := range events {
			if err != nil {
				return err
			}
			switch e.Type {
			case client.EventTextDelta:
				_, _ = io.WriteString(out, e.Text)
			case client.EventTurnWaiting:
				waiting = e.Response.ToolCalls
			case client.EventTurnFailed:
				return e.Problem
			}
		}
		events = nil
		if len(waiting) > 0 {
			events = c.StreamContinue(ctx, client.ToolContinuation{SessionID: turn.SessionID, TurnID: turn.TurnID, ToolResults: results(waiting)})
		}
	}
	_, _ = fmt.Fprintln(out)
	return nil
}

// results answers each call, in the order of the calls.
func results(calls []client.ToolCall) []client.ToolResult {
	var out []client.ToolResult
	for _, call := range calls {
		r := client.ToolResult{ToolCallID: call.ToolCallID}
		if text, err := pieces(call.ArgumentsJSON); err != nil {
			problem := err.Error()
			r.ErrorMessage = &problem
		} else {
			r.ResultJSON = &text
		}
		out = append(out, r)
	}
	return out
}

// pieces is the tool. Its errors are told to the model, which can do better.
func pieces(arguments string) (string, error) {
	var asked struct{ Item string }
	if err := json.Unmarshal([]byte(arguments), &asked); err != nil {
		return "", fmt.Errorf("the arguments are no JSON: %w", err)
	}
	n, ok := stock[asked.Item]
	if !ok {
		return "", fmt.Errorf("there is no item %q; there are tea and coffee", asked.Item)
	}
	return fmt.Sprintf(`{"item":%q,"pieces":%d}`, asked.Item, n), nil
}
