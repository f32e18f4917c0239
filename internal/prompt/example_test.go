package prompt_test

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prompt"
)

func ExampleBuild() {
	c := prompt.Build(prompt.Input{
		Context: agent.ConversationContext{Model: "gpt-5-mini", System: "You are Aptix."},
		Request: prompt.Request{Mode: "general", Instruction: "What can you do?"},
	})
	fmt.Println(c.JSON())
	// Output:
	// {"model":"gpt-5-mini","input":[{"role":"system","content":[{"type":"text","text":"You are Aptix."}]},{"role":"user","content":[{"type":"text","text":"[MODE: general]\n\n[INSTRUCTION]\nWhat can you do?"}]}]}
}
