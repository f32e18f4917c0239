package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/aptixhq/aptix/client"
)

// A turn may wait for a tool that this program runs. Its results go back in the order of
// the calls, and the stream goes on.
func ExampleClient_Stream() {
	server := httptest.NewServer(exampleServer()) // in real life: aptix serve
	defer server.Close()

	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	turn := client.UserTurn{SessionID: "s1", TurnID: client.NewID(), Instruction: "What is in notes.md?"}
	for events := c.Stream(ctx, turn); events != nil; {
		var calls []client.ToolCall
		for e, err := range events {
			if err != nil {
				log.Fatal(err)
			}
			switch e.Type {
			case client.EventTextDelta:
				fmt.Print(e.Text)
			case client.EventTurnWaiting:
				calls = e.Response.ToolCalls
			case client.EventTurnFailed:
				log.Fatal(e.Problem)
			}
		}
		events = nil
		if len(calls) > 0 {
			done := client.ToolContinuation{SessionID: turn.SessionID, TurnID: turn.TurnID}
			for _, call := range calls {
				fmt.Printf("[%s %s]\n", call.Name, call.ArgumentsJSON)
				result := `{"content": "the cache forgets"}`
				done.ToolResults = append(done.ToolResults, client.ToolResult{ToolCallID: call.ToolCallID, ResultJSON: &result})
			}
			events = c.StreamContinue(ctx, done)
		}
	}
	// Output:
	// I look.
	// [read_file {"path":"notes.md"}]
	// It says: the cache forgets
}
