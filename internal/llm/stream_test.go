package llm_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

// streamed asks a provider whose answer is this stream.
func streamed(t *testing.T, body string) got {
	t.Helper()
	return ask(t, serve(t, llm.Config{}, answer("text/event-stream", body)), true)
}

func TestStream_HowTheSameAnswerMayArrive(t *testing.T) {
	events := sixty()
	lines := sse(events...)
	doubled := make([]string, 0, 2*len(events))
	for _, e := range events {
		doubled = append(doubled, e, e)
	}
	for name, body := range map[string]string{
		"LF":                         lines,
		"CR":                         strings.ReplaceAll(lines, "\n", "\r"),
		"CRLF":                       strings.ReplaceAll(lines, "\n", "\r\n"),
		"BOM":                        "\ufeff" + lines,
		"no event names":             withoutNames(lines),
		"event names that mislead":   strings.ReplaceAll(lines, "event: response", "event: nothing"),
		"comments":                   ": hi\n\n" + strings.ReplaceAll(lines, "\n\n", "\n\n: still here\n\n"),
		"unknown events":             sse(`{"type":"response.new_thing","delta":{"a":1},"item":7,"response":"x"}`) + lines,
		"an event that says nothing": "data: null\n\ndata: {}\n\n" + lines,
		"[DONE]":                     lines + "data: [DONE]\n\n",
		"[DONE] too early":           "data: [DONE]\n\n" + lines,
		"events after the end":       lines + sse(`{"type":"response.output_text.delta","delta":"late"}`, `{"type":"error","message":"late"}`),
		"the end twice":              lines + sse(events[len(events)-1]),
		"garbage after the end":      lines + "data: {\n\n",
		"each event twice":           sse(doubled...),
		"old events again":           sse(slices.Concat(events[:30], events[10:30], events[30:])...),
		"no blank line after lines":  "data: " + strings.ReplaceAll(events[0], `,"`, ",\ndata: \"") + "\n\n" + sse(events[1:]...),
		"no sequence numbers":        withoutNumbers(lines),
		"numbers that are none":      strings.ReplaceAll(lines, `"sequence_number":`, `"sequence_number":"x","n":`),
		"all numbers zero":           zeroNumbers(lines),
		"gaps in the numbers":        gaps(events),
	} {
		t.Run(name, func(t *testing.T) {
			g := streamed(t, body)
			want(t, g.Err, nil)
			want(t, g.text(), spoken())
			if g.Response == nil {
				t.Fatal("no response")
			}
			want(t, g.Response.Items, raw(itemText, itemCall))
			want(t, g.Response.Status, "completed")
		})
	}
}

func withoutNames(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		if !strings.HasPrefix(l, "event:") {
			b.WriteString(l)
		}
	}
	return b.String()
}

func withoutNumbers(s string) string { return strings.ReplaceAll(s, `"sequence_number":`, `"number":`) }

func zeroNumbers(s string) string {
	return strings.ReplaceAll(s, `"sequence_number":`, `"sequence_number":0,"number":`)
}

func gaps(events []string) string {
	var out []string
	for i, e := range events {
		out = append(out, strings.Replace(e, fmt.Sprintf(`"sequence_number":%d,`, i), fmt.Sprintf(`"sequence_number":%d,`, 7*i+3), 1))
	}
	return sse(out...)
}

func TestStream_Items(t *testing.T) {
	done := func(index int, item string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
	}
	completed := func(output string) string {
		return `{"type":"response.completed","response":{"id":"resp_1","status":"completed"` + output + `}}`
	}
	odd := `{ "type" : "message","content":[ {"type":"output_text","text":"\u003c\/"} ] , "n":1.0e2 }`
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"the response's own":                   {sse(done(0, itemText), completed(`,"output":[`+odd+`]`)), []string{odd}},
		"those of the stream when it has none": {sse(done(0, itemText), done(1, itemCall), completed("")), []string{itemText, itemCall}},
		"… or an empty list":                   {sse(done(0, odd), completed(`,"output":[]`)), []string{odd}},
		"… or null":                            {sse(done(0, odd), completed(`,"output":null`)), []string{odd}},
		"in output order":                      {sse(done(2, odd), done(0, itemText), done(1, itemCall), completed("")), []string{itemText, itemCall, odd}},
		"none at all":                          {sse(completed("")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := streamed(t, tc.body)
			want(t, g.Err, nil)
			var got []string
			for _, i := range g.Response.Items {
				got = append(got, string(i))
			}
			want(t, got, tc.want)
		})
	}
}

// What an answer returned is its own: the buffers it was read in are lent to the next one.
func TestStream_AnAnswerStaysAsItWas(t *testing.T) {
	numbered := func(n int) (body, item string) {
		item = fmt.Sprintf(`{"type":"message","id":"msg_%02d","content":[{"type":"output_text","text":"%s"}]}`, n, strings.Repeat(string(rune('a'+n)), 5<<10))
		return sse(fmt.Sprintf(`{"type":"response.completed","response":{"id":"resp_%02d","status":"completed","output":[%s]}}`, n, item)), item
	}
	var items, said []string
	var answers []got
	for n := range 20 {
		body, item := numbered(n)
		items, answers = append(items, item), append(answers, streamed(t, body))
	}
	for _, g := range answers {
		want(t, g.Err, nil)
		said = append(said, string(g.Response.Items[0]))
	}
	want(t, said, items)
}

// Deltas are cut from sheets that they share: each stays what it was, however many follow,
// and whether it fits on the sheet or not.
func TestStream_DeltasStayAsTheyWere(t *testing.T) {
	var events, said []string
	for n := range 1000 {
		delta := strings.Repeat(fmt.Sprintf("%d ", n), 1+n%40)
		if n%7 == 0 {
			delta = "\t" + delta
		}
		said = append(said, delta)
		events = append(events, fmt.Sprintf(`{"type":"response.output_text.delta","delta":%q}`, delta))
	}
	g := streamed(t, sse(append(events, `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`)...))
	want(t, g.Err, nil)
	want(t, g.Deltas, said)
}

func TestStream_TextThatIsNoUnicode(t *testing.T) {
	g := streamed(t, sse(
		"{\"type\":\"response.output_text.delta\",\"delta\":\"a\xe2\x82\"}",
		`{"type":"response.output_text.delta","delta":"\ud800b\u0000"}`,
		`{"type":"response.refusal.delta","delta":"no"}`,
		`{"type":"response.output_text.delta","delta":""}`,
		"{\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"\xff\"}]}]}}",
	))
	want(t, g.Err, nil)
	want(t, g.Deltas, []string{"a\uFFFD", "\uFFFDb\x00", "no"})
	want(t, g.Response.Text(), "\uFFFD")
}

func TestAnswer_Faults(t *testing.T) {
	const stream, json = "text/event-stream", "application/json"
	begin := sse(sixty()[:10]...)
	for name, tc := range map[string]struct {
		contentType, body string
		want              string
	}{
		"nothing":                   {stream, "", cut},
		"only [DONE]":               {stream, "data: [DONE]\n\n", cut},
		"no end":                    {stream, begin, cut},
		"cut inside the end":        {stream, strings.TrimSuffix(sse(sixty()...), "\n"), cut},
		"malformed event":           {stream, begin + "data: {\"type\":\n\n", unread},
		"malformed unknown event":   {stream, begin + "event: ping\ndata: pong\n\n", unread},
		"malformed delta":           {stream, begin + sse(`{"type":"response.output_text.delta","delta":{}}`), unread},
		"malformed item":            {stream, begin + "data: {\"type\":\"response.output_item.done\",\"item\":{]}\n\n", unread},
		"end without response":      {stream, begin + sse(`{"type":"response.completed"}`), unread},
		"end with a strange one":    {stream, begin + sse(`{"type":"response.completed","response":[]}`), unread},
		"end without id":            {stream, begin + sse(`{"type":"response.completed","response":{"output":[`+itemText+`]}}`), unread},
		"item that is none":         {stream, begin + sse(`{"type":"response.completed","response":{"id":"r","output":[7]}}`), unread},
		"item that was none":        {stream, begin + sse(`{"type":"response.output_item.done"}`, `{"type":"response.completed","response":{"id":"r"}}`), unread},
		"call without id":           {json, `{"id":"r","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`, unread},
		"call without name":         {json, `{"id":"r","status":"completed","output":[{"type":"function_call","call_id":"c","arguments":"{}"}]}`, unread},
		"call with object":          {json, `{"id":"r","status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":{}}]}`, unread},
		"two calls of one id":       {json, `{"id":"r","status":"completed","output":[` + itemCall + `,` + itemCall + `]}`, unread},
		"error event":               {stream, begin + sse(`{"type":"error","code":"server_error","message":"Out of\nluck","param":null}`), "The provider failed (server_error): Out of luck"},
		"nested error event":        {stream, begin + sse(`{"type":"error","error":{"type":"x","code":null,"message":"Out of luck"}}`), "The provider failed: Out of luck"},
		"error without a type":      {stream, begin + "data: {\"error\":{\"message\":\"Out of luck\",\"code\":429}}\n\n", "The provider failed: Out of luck"},
		"error that says nothing":   {stream, begin + "event: error\ndata: {}\n\n", "The provider failed."},
		"error of the event's name": {stream, begin + "event: error\ndata: {\"message\":\"Out of luck\"}\n\n", "The provider failed: Out of luck"},
		"failed": {stream, begin + sse(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"Out of luck"}}}`),
			"The provider failed (server_error): Out of luck"},
		"incomplete": {stream, begin + sse(`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`),
			"The provider stopped before its answer was complete: max_output_tokens. It reached the model's bound of output; ask for less at once."},
		"incomplete without a reason": {stream, begin + sse(`{"type":"response.incomplete","response":{"id":"r"}}`),
			"The provider stopped before its answer was complete: no reason given. Send the turn again with a new turnId."},
		"incomplete, called complete": {stream, begin + sse(`{"type":"response.completed","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`),
			"The provider stopped before its answer was complete: content_filter. The provider's filter stopped it; ask in another way."},
		"complete, called incomplete": {stream, begin + sse(`{"type":"response.incomplete","response":{"id":"r","status":"completed"}}`),
			"The provider stopped before its answer was complete: no reason given. Send the turn again with a new turnId."},
		"failed, called complete":   {stream, begin + sse(`{"type":"response.completed","response":{"id":"r","status":"completed","error":{"message":"No"}}}`), "The provider failed: No"},
		"still at it":               {stream, begin + sse(`{"type":"response.completed","response":{"id":"r","status":"in_progress"}}`), "The provider ended its answer in a state that is no end (in_progress)."},
		"document: nothing":         {json, "", unread},
		"document: an empty object": {json, "{}", "The provider ended its answer in a state that is no end (none)."},
		"document: cut":             {json, document[:len(document)-2], unread},
		"document: a page":          {json, "<html>", unread},
		"document: a list":          {json, "[]", unread},
		"document: two":             {json, document + document, unread},
		"document: an error":        {json, `{"error":{"message":"No"}}`, "The provider failed: No"},
		"document: queued":          {json, `{"id":"r","status":"queued","output":[]}`, "The provider ended its answer in a state that is no end (queued)."},
		"document: incomplete":      {json, `{"id":"r","incomplete_details":{"reason":"content_filter"},"output":[]}`, "The provider stopped before its answer was complete: content_filter. The provider's filter stopped it; ask in another way."},
		"a page":                    {"text/html", "<html>Welcome</html>", neither},
		"no type":                   {"", document, neither},
		"text":                      {"text/plain", document, neither},
		"a type that is none":       {";;", document, neither},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = []string{tc.contentType}
				_, _ = io.WriteString(w, tc.body)
			})
			g := ask(t, c, tc.contentType == stream)
			kind, reason := agent.KindProviderFailed, ""
			if _, said, stopped := strings.Cut(tc.want, "stopped before its answer was complete: "); stopped {
				kind = agent.KindAnswerIncomplete
				if said, _, _ = strings.Cut(said, "."); said != "no reason given" {
					reason = said
				}
			}
			want(t, agent.FaultOf(g.Err), agent.Fault{Kind: kind, Message: tc.want, Reason: reason})
			if g.Response != nil && g.Response.Status == "completed" {
				t.Errorf("a completed answer stands beside the fault: %+v", g.Response)
			}
		})
	}
}

const (
	cut     = "The provider cut the stream before its answer was complete; try again."
	unread  = "The provider sent an answer that cannot be read; try again."
	neither = "The provider answered with something that is neither JSON nor an event stream; check the base URL."
)

func TestAnswer_WhatAnIncompleteAnswerCostStandsBesideItsFault(t *testing.T) {
	g := streamed(t, sse(`{"type":"response.incomplete","response":{"id":"r","incomplete_details":{"reason":"max_output_tokens"},"output":[`+itemText+`],"usage":`+usage+`}}`))
	want(t, agent.KindOf(g.Err), agent.KindAnswerIncomplete)
	want(t, g.Response, &llm.Response{ID: "r", Status: "incomplete", Items: raw(itemText), IncompleteReason: "max_output_tokens",
		Usage: agent.Usage{InputTokens: 11, OutputTokens: 7, TotalTokens: 18, CachedTokens: 3, ReasoningTokens: 2}})
}

func TestAnswer_UsageAsFarAsItIsGiven(t *testing.T) {
	for given, wantUsage := range map[string]agent.Usage{
		`null`:                                 {},
		`{"input_tokens":3,"output_tokens":4}`: {InputTokens: 3, OutputTokens: 4, TotalTokens: 7},
		`{"input_tokens":-3,"output_tokens":"4","total_tokens":1e400}`:    {},
		`{"input_tokens":3,"input_tokens_details":null,"total_tokens":9}`: {InputTokens: 3, TotalTokens: 9},
	} {
		g := ask(t, serve(t, llm.Config{}, answer("application/json", `{"id":"r","status":"completed","output":[],"usage":`+given+`}`)), false)
		want(t, g.Err, nil)
		want(t, g.Response.Usage, wantUsage)
	}
}

// A turn of sixty events is broken off after each of them, politely and rudely.
func TestStream_DroppedAfterEachEvent(t *testing.T) {
	events := sixty()
	want(t, len(events), 60)
	for name, end := range map[string]func(){"closed": func() {}, "reset": func() { panic(http.ErrAbortHandler) }} {
		t.Run(name, func(t *testing.T) {
			n := 0
			c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
				answer("text/event-stream", sse(events[:n]...))(w, r)
				_ = http.NewResponseController(w).Flush()
				end()
			})
			for n = range events {
				g := ask(t, c, true)
				want(t, agent.FaultOf(g.Err), agent.Fault{Kind: agent.KindProviderFailed, Message: cut})
				if g.Response != nil || !strings.HasPrefix(spoken(), g.text()) {
					t.Errorf("after %d events: %+v", n, g)
				}
			}
		})
	}
}

func TestStream_DroppedInsideTheLastEvent(t *testing.T) {
	whole := sse(sixty()...)
	last := len(whole) - len(sse(sixty()[59]))
	n := 0
	c := serve(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		answer("text/event-stream", whole[:n])(w, r)
	})
	for n = last; n < len(whole); n += 37 {
		want(t, agent.FaultOf(ask(t, c, true).Err).Message, cut)
	}
}
