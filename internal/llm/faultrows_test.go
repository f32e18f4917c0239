package llm_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

var (
	bothForms    = []form{asStream, asDocument}
	streamOnly   = []form{asStream}
	documentOnly = []form{asDocument}
)

// refusals are answers with a status other than 2xx.
func refusals() []fault {
	const asJSON, page = `{"error":{"message":"no","type":"t","code":null}}`, "<html>nginx</html>"
	var out []fault
	add := func(name string, requests int, after time.Duration, play func(c rawConn, n int)) {
		out = append(out, fault{name: name, forms: bothForms, places: 1, play: play,
			want: agent.KindProviderFailed, requests: requests, retryAfter: after})
	}
	for _, status := range []int{408, 409, 429, 500, 502, 503, 504, 529} {
		add(fmt.Sprintf("%d with an error object", status), 3, 0, func(c rawConn, _ int) { c.whole(status, "application/json", asJSON) })
		add(fmt.Sprintf("%d with a page", status), 3, 0, func(c rawConn, _ int) { c.whole(status, "text/html", page) })
		add(fmt.Sprintf("%d with nothing", status), 3, 0, func(c rawConn, _ int) { c.whole(status, "text/plain", "") })
	}
	for _, status := range []int{307, 400, 401, 403, 404, 422, 501} {
		add(fmt.Sprint(status), 1, 0, func(c rawConn, _ int) {
			c.whole(status, "application/json", asJSON, "Location: http://127.0.0.1:1/")
		})
	}
	add("429, budget used up", 1, 0, func(c rawConn, _ int) {
		c.whole(429, "application/json", `{"error":{"code":"insufficient_quota","message":"pay"}}`)
	})
	for _, h := range []struct {
		header   string
		requests int
		after    time.Duration
	}{
		{"Retry-After: 0", 3, 0},
		{"Retry-After: -1", 3, 0},
		{"Retry-After: NaN", 3, 0},
		{"Retry-After: soon", 3, 0},
		{"Retry-After: Wed, 21 Oct 1998 07:28:00 GMT", 3, 0},
		{"Retry-After: 0.001", 3, time.Millisecond},
		{"Retry-After-Ms: 1", 3, time.Millisecond},
		{"Retry-After: 3600", 1, time.Hour},
		{"Retry-After: 1e300", 1, 24 * time.Hour},
		{"Retry-After: 1e999", 1, 24 * time.Hour},
		{"Retry-After: Wed, 21 Oct 2215 07:28:00 GMT", 1, 24 * time.Hour},
		{"Retry-After-Ms: 3600000", 1, time.Hour},
	} {
		add("429, "+h.header, h.requests, h.after, func(c rawConn, _ int) { c.whole(429, "application/json", asJSON, h.header) })
	}
	return out
}

// connections are faults before an answer begins, and answers that are none.
func connections() []fault {
	var out []fault
	add := func(name string, requests int, play func(c rawConn, n int)) {
		out = append(out, fault{name: name, forms: bothForms, places: 1, play: play, want: agent.KindProviderFailed, requests: requests})
	}
	add("dropped before the status line", 1, func(rawConn, int) {})
	add("reset before the status line", 1, func(c rawConn, _ int) { c.reset() })
	add("half a status line", 1, func(c rawConn, _ int) { c.text("HTTP/1.1 20") })
	add("something other than HTTP", 1, func(c rawConn, _ int) { c.text("SSH-2.0-OpenSSH\r\n\r\n") })
	add("half the headers", 1, func(c rawConn, _ int) { c.text("HTTP/1.1 200 OK\r\nContent-Type: text/ev") })
	add("headers, then the end", 1, func(c rawConn, _ int) { c.promise("text/event-stream", "") })
	add("headers, then a reset", 1, func(c rawConn, _ int) { c.promise("application/json", ""); c.reset() })
	add("200 with a page", 1, func(c rawConn, _ int) { c.whole(200, "text/html", "<html>Welcome</html>") })
	add("200 with a page called JSON", 1, func(c rawConn, _ int) { c.whole(200, "application/json", "<html>Welcome</html>") })
	add("200 with nothing", 1, func(c rawConn, _ int) { c.whole(200, "application/json", "") })
	add("200 with an empty stream", 1, func(c rawConn, _ int) { c.stream(); c.end() })
	add("200 of no type", 1, func(c rawConn, _ int) { c.whole(200, "", longDocument) })
	add("204", 1, func(c rawConn, _ int) { c.text("HTTP/1.1 204 No Content\r\n\r\n") })
	out = append(out,
		fault{name: "nobody listens", forms: bothForms, places: 1, nowhere: "http://127.0.0.1:1/v1", want: agent.KindProviderFailed},
		fault{name: "no TLS where it is expected", forms: bothForms, places: 1, nowhere: "https://{here}",
			play: func(rawConn, int) {}, want: agent.KindProviderFailed, connections: 3})
	return out
}

// strikes is a fault before each event of a stream.
func strikes(name string, play func(c rawConn, n int)) fault {
	return fault{name: name, forms: streamOnly, places: len(longStream()), want: agent.KindProviderFailed, requests: 1,
		play: func(c rawConn, n int) {
			c.stream(longStream()[:n]...)
			play(c, n)
		}}
}

// saysInstead is a fault that the provider says in an event, before each event of a stream.
func saysInstead(name, event string) fault {
	return strikes(name, func(c rawConn, _ int) { c.chunk(event); c.end() })
}

// cutShort is a fault that the provider itself calls an incomplete answer.
func cutShort(f fault) fault {
	f.want = agent.KindAnswerIncomplete
	return f
}

// streams are faults in the middle of a stream.
func streams() []fault {
	events := longStream()
	completed := func(output string) string {
		return sse(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[` + output + `]}}`)
	}
	reset := strikes("reset", func(c rawConn, _ int) { c.reset() })
	reset.fewer = true
	silent := strikes("silence", func(c rawConn, _ int) { c.stall() })
	silent.want, silent.fewer, silent.limits = agent.KindProviderTimeout, true, llm.Config{IdleTimeout: time.Second}
	endless := strikes("comments without end", func(c rawConn, _ int) {
		for c.chunk(strings.Repeat(":\n", 1<<10)) {
		}
	})
	endless.limits.MaxBytes = 32 << 10
	large := strikes("an event that is too large", func(c rawConn, _ int) {
		for c.chunk(strings.Repeat("data: x", 1<<10)) {
		}
	})
	large.limits.MaxBytes = 32 << 10
	small := strikes("small events without end", func(c rawConn, _ int) {
		for c.chunk(strings.Repeat(sse(`{"type":"response.function_call_arguments.delta","delta":"x"}`), 32)) {
		}
	})
	small.limits.MaxBytes = 32 << 10
	return []fault{
		strikes("the stream just ends", func(c rawConn, _ int) { c.end() }),
		strikes("the connection ends within the body", func(rawConn, int) {}),
		strikes("the end comes inside an event", func(c rawConn, n int) {
			e := sse(events[n])
			c.chunk(e[:len(e)/2])
			c.end()
		}),
		strikes("the end comes before the blank line", func(c rawConn, n int) {
			c.chunk(strings.TrimSuffix(sse(events[n]), "\n"))
			c.end()
		}),
		strikes("[DONE], then the end", func(c rawConn, _ int) { c.chunk("data: [DONE]\n\n"); c.end() }),
		strikes("broken chunks", func(c rawConn, _ int) { c.text("xyz\r\n") }),
		reset, silent, endless, large, small,
		saysInstead("an error event", sse(`{"type":"error","code":"server_error","message":"Out of luck"}`)),
		saysInstead("an error object", "data: {\"error\":{\"message\":\"Out of luck\",\"code\":500}}\n\n"),
		saysInstead("response.failed", sse(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"no"}}}`)),
		cutShort(saysInstead("response.incomplete, max_output_tokens", sse(`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[`+itemWrite+`]}}`))),
		cutShort(saysInstead("response.incomplete, content_filter", sse(`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}`))),
		saysInstead("malformed JSON", "data: {\"type\":\"response.output_text.delta\",\"delta\":\n\n"),
		saysInstead("malformed JSON of an unknown event", "event: ping\ndata: pong\n\n"),
		saysInstead("a page", "data: <html>502</html>\n\n"),
		saysInstead("completed without an id", sse(`{"type":"response.completed","response":{"status":"completed","output":[]}}`)),
		saysInstead("completed without a response", sse(`{"type":"response.completed"}`)),
		saysInstead("completed and still in progress", sse(`{"type":"response.completed","response":{"id":"r","status":"in_progress","output":[]}}`)),
		saysInstead("a call without call_id", completed(`{"type":"function_call","name":"f","arguments":"{}"}`)),
		saysInstead("a call without name", completed(`{"type":"function_call","call_id":"c","arguments":"{}"}`)),
		saysInstead("two calls of one call_id", completed(itemWrite+","+itemWrite)),
		saysInstead("arguments that are no text", completed(`{"type":"function_call","call_id":"c","name":"f","arguments":{}}`)),
		saysInstead("an item that is none", completed(`7`)),
	}
}

// documents are faults in the middle of an answer of one piece.
func documents() []fault {
	const cuts = 60
	cut := func(n int) string { return longDocument[:len(longDocument)*n/cuts] }
	at := func(name string, play func(c rawConn, n int)) fault {
		return fault{name: name, forms: documentOnly, places: cuts, play: play, want: agent.KindProviderFailed, requests: 1}
	}
	whole := func(name, body string) fault {
		return fault{name: name, forms: documentOnly, places: 1, want: agent.KindProviderFailed, requests: 1,
			play: func(c rawConn, _ int) { c.whole(200, "application/json", body) }}
	}
	silent := at("document: silence", func(c rawConn, n int) { c.promise("application/json", cut(n)); c.stall() })
	silent.want, silent.limits = agent.KindProviderTimeout, llm.Config{IdleTimeout: time.Second}
	large := at("document: too large", func(c rawConn, n int) {
		c.text("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n%s", cut(n))
		for c.text("%s", strings.Repeat(" ", 4<<10)) {
		}
	})
	large.limits.MaxBytes = 32 << 10
	return []fault{
		at("document: cut, and it shows", func(c rawConn, n int) { c.promise("application/json", cut(n)) }),
		at("document: cut, and it does not show", func(c rawConn, n int) { c.whole(200, "application/json", cut(n)) }),
		at("document: reset", func(c rawConn, n int) { c.promise("application/json", cut(n)); c.reset() }),
		at("document: a page instead of the rest", func(c rawConn, n int) { c.whole(200, "application/json", cut(n)+"<html>502</html>") }),
		silent, large,
		whole("document: failed", `{"id":"r","status":"failed","error":{"code":"server_error","message":"no"},"output":[]}`),
		whole("document: an error object", `{"error":{"message":"no"}}`),
		cutShort(whole("document: incomplete, max_output_tokens", `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[`+itemWrite+`]}`)),
		cutShort(whole("document: incomplete, content_filter", `{"id":"r","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`)),
		whole("document: queued", `{"id":"r","status":"queued","output":[]}`),
		whole("document: an empty object", `{}`),
		whole("document: two of them", longDocument+longDocument),
		whole("document: a call without call_id", `{"id":"r","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`),
	}
}

// oddities are what a stream may do without being at fault.
func oddities() []fault {
	events := longStream()
	rewrite := func(name string, as func(n int) string) fault {
		return fault{name: name, forms: streamOnly, places: len(events), want: harmless, requests: 1,
			play: func(c rawConn, n int) { c.stream(); c.chunk(as(n)); c.end() }}
	}
	with := func(n int, extra string) string { return sse(events[:n]...) + extra + sse(events[n:]...) }
	numbered := func(n int, number int) string {
		out := append([]string(nil), events...)
		out[n] = strings.Replace(out[n], fmt.Sprintf(`"sequence_number":%d,`, n+1), fmt.Sprintf(`"sequence_number":%d,`, number), 1)
		return sse(out...)
	}
	// An event whose number is too low is taken for a repetition: the piece of text is
	// not shown, and stands in the whole answer all the same.
	low := rewrite("a sequence number that is too low", func(n int) string { return numbered(n, 1) })
	low.fewer = true
	leap := rewrite("a sequence number that leaps ahead", func(n int) string { return numbered(n, 1<<40) })
	leap.fewer = true
	after := func(name string, play func(c rawConn)) fault {
		return fault{name: name, forms: streamOnly, places: 1, want: harmless, requests: 1, play: func(c rawConn, _ int) {
			c.stream(events...)
			play(c)
		}}
	}
	return []fault{
		rewrite("an event twice", func(n int) string { return with(n, sse(events[max(0, n-1)])) }),
		rewrite("all events so far once more", func(n int) string { return with(n, sse(events[:n]...)) }),
		rewrite("an unknown event", func(n int) string { return with(n, sse(`{"type":"response.new","delta":{"a":1},"item":7}`)) }),
		rewrite("an event that says nothing", func(n int) string { return with(n, "data: null\n\ndata: {}\n\n:\n\n") }),
		rewrite("[DONE] too early", func(n int) string { return with(n, "data: [DONE]\n\n") }),
		rewrite("bytes that are no text", func(n int) string { return with(n, "data: {\"type\":\"x\",\"y\":\"\xe2\x82\"}\n\n") }),
		rewrite("NUL and half a surrogate pair", func(n int) string { return with(n, `data: {"type":"x","y":"\u0000\ud800"}`+"\n\n") }),
		rewrite("no event name", func(n int) string {
			return sse(events[:n]...) + withoutNames(sse(events[n])) + sse(events[n+1:]...)
		}),
		rewrite("a gap in the sequence numbers", func(n int) string {
			var out []string
			for i, e := range events {
				if i >= n {
					e = strings.Replace(e, `"sequence_number":`, `"sequence_number":9`, 1)
				}
				out = append(out, e)
			}
			return sse(out...)
		}),
		rewrite("a sequence number of zero", func(n int) string { return numbered(n, 0) }),
		low, leap,
		rewrite("line ends of CR from here on", func(n int) string {
			return sse(events[:n]...) + strings.ReplaceAll(sse(events[n:]...), "\n", "\r")
		}),
		rewrite("line ends of CRLF from here on", func(n int) string {
			return sse(events[:n]...) + strings.ReplaceAll(sse(events[n:]...), "\n", "\r\n")
		}),
		fault{name: "a BOM, and packets that end anywhere", forms: streamOnly, places: len(events), want: harmless, requests: 1,
			play: func(c rawConn, n int) {
				body := "\ufeff" + sse(events...)
				c.stream()
				for len(body) > 0 {
					piece := body[:min(len(body), 17+31*n)]
					body = body[len(piece):]
					c.chunk(piece)
				}
				c.end()
			}},
		after("events after the end", func(c rawConn) {
			c.chunk(sse(`{"type":"response.output_text.delta","delta":"late"}`, `{"type":"error","message":"late"}`))
			c.end()
		}),
		after("the end twice", func(c rawConn) { c.chunk(sse(events[len(events)-1])); c.end() }),
		after("garbage after the end", func(c rawConn) { c.chunk("data: {\n\n<html>"); c.end() }),
		after("no end of the body after the end", func(rawConn) {}),
		{name: "a document instead of a stream", forms: documentOnly, places: 1, want: harmless, requests: 1,
			play: func(c rawConn, _ int) { c.whole(200, "application/json", longDocument) }},
		{name: "a stream instead of a document", forms: documentOnly, places: 1, want: harmless, requests: 1,
			play: func(c rawConn, _ int) { c.stream(events...); c.end() }},
	}
}
