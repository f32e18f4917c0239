package llm_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// What a provider may send without end is bounded; what is merely large arrives whole.
// The log says what each costs in memory, which depends on the machine.
func TestAsk_OversizedAnswers(t *testing.T) {
	const tooLarge = "The provider's answer is larger than this server takes."
	arguments := strings.Repeat("x", 10<<20)
	call := fmt.Sprintf(`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":\"%s\"}"}`, arguments)
	done := `{"id":"r","status":"completed","output":[` + call + `]}`
	for name, tc := range map[string]struct {
		play func(c rawConn)
		want string
	}{
		"one event of 64 MiB": {func(c rawConn) {
			c.stream()
			c.chunk("data: ")
			for i := 0; i < 64 && c.chunk(strings.Repeat("x", 1<<20)); i++ {
			}
		}, tooLarge},
		"ten million deltas": {func(c rawConn) {
			c.stream()
			batch := strings.Repeat(sse(`{"type":"response.output_text.delta","delta":"x"}`), 10_000)
			for i := 0; i < 1000 && c.chunk(batch); i++ {
			}
		}, tooLarge},
		"10 MB of arguments, as a document": {func(c rawConn) { c.whole(200, "application/json", done) }, ""},
		"10 MB of arguments, as a stream": {func(c rawConn) {
			c.stream()
			for i := 0; i < len(arguments); i += 1 << 10 {
				c.chunk(sse(`{"type":"response.function_call_arguments.delta","delta":"` + arguments[i:i+1<<10] + `"}`))
			}
			c.chunk("data: {\"type\":\"response.completed\",\"response\":" + done + "}\n\n")
			c.end()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := playRaw(t, tc.play)
			c := llm.New(llm.Config{BaseURL: p.url})
			defer c.Close()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var last llm.Event
			var fault error
			for ev, err := range c.Ask(t.Context(), &llm.Wire{}, true) {
				last, fault = ev, err
			}
			runtime.ReadMemStats(&after)
			grown := (int64(after.HeapSys) - int64(before.HeapSys)) >> 20
			t.Logf("the heap has %d MiB more from the system", grown)
			if tc.want != "" {
				want(t, agent.FaultOf(fault).Message, tc.want)
				return
			}
			want(t, fault, nil)
			calls := last.Response.Calls()
			if len(calls) != 1 || !json.Valid([]byte(calls[0].Arguments)) || len(calls[0].Arguments) != len(arguments)+8 {
				t.Errorf("got %d calls", len(calls))
			}
		})
	}
}
