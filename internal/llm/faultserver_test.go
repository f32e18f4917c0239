package llm_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// rawProvider is a provider on a real socket that need not keep to HTTP: it reads each
// request to its end and then does to the connection what play says.
type rawProvider struct {
	url      string
	requests atomic.Int32
	// connections are all that were opened, also those that no request came on.
	connections atomic.Int32
}

func playRaw(t testing.TB, play func(c rawConn)) *rawProvider {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &rawProvider{url: "http://" + l.Addr().String() + "/v1"}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.connections.Add(1)
			conns.Go(func() {
				defer func() { _ = c.Close() }()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return // such as a TLS handshake
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				p.requests.Add(1)
				play(rawConn{c.(*net.TCPConn)})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Wait()
	})
	return p
}

// rawConn is the provider's end of a connection. What cannot be written is not wanted
// any more, which is no fault of a test.
type rawConn struct{ *net.TCPConn }

func (c rawConn) text(format string, args ...any) bool {
	_, err := fmt.Fprintf(c, format, args...)
	return err == nil
}

// stream begins a chunked event stream and sends the events.
func (c rawConn) stream(events ...string) {
	c.text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, e := range events {
		c.chunk(sse(e))
	}
}

func (c rawConn) chunk(s string) bool { return c.text("%x\r\n%s\r\n", len(s), s) }

// end ends a chunked body as it should be.
func (c rawConn) end() { c.text("0\r\n\r\n") }

// whole sends a whole answer of one piece.
func (c rawConn) whole(status int, contentType, body string, header ...string) {
	c.text("HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s",
		status, contentType, len(body), strings.Join(append(header, ""), "\r\n"), body)
}

// promise begins an answer that should be longer than it will be.
func (c rawConn) promise(contentType, body string) {
	c.text("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", contentType, len(body)+1000, body)
}

// reset breaks the connection so that the other side gets an RST instead of an end.
func (c rawConn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// stall keeps the connection and says nothing until the other side goes away.
func (c rawConn) stall() { _, _ = io.Copy(io.Discard, c) }

const (
	itemReasoning = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Look first."}],"encrypted_content":"gAAAAB+/="}`
	itemAnswer    = `{"id":"msg_2","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"…"}]}`
	itemWrite     = `{"id":"fc_2","type":"function_call","status":"completed","arguments":"{\"path\":\"a.go\",\"text\":\"xxxxxxxxxxxxxxxx\"}","call_id":"call_2","name":"write_file"}`
	longDocument  = `{"id":"resp_2","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[` + itemReasoning + `,` + itemAnswer + `,` + itemWrite + `],"usage":` + usage + `}`
)

// longStream are sixty events with everything that a stream may hold: reasoning, text,
// and the arguments of a tool piece by piece.
func longStream() []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, strings.Replace(fmt.Sprintf(format, args...), "{", fmt.Sprintf(`{"sequence_number":%d,`, len(out)+1), 1))
	}
	add(`{"type":"response.created","response":{"id":"resp_2","status":"in_progress","output":[]}}`)
	add(`{"type":"response.in_progress","response":{"id":"resp_2","status":"in_progress","output":[]}}`)
	add(`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`)
	for range 4 {
		add(`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Look "}`)
	}
	add(`{"type":"response.output_item.done","output_index":0,"item":%s}`, itemReasoning)
	add(`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_2","type":"message"}}`)
	add(`{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}`)
	for i := range 26 {
		add(`{"type":"response.output_text.delta","item_id":"msg_2","output_index":1,"content_index":0,"delta":"w%d ","logprobs":[]}`, i)
	}
	add(`{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"…"}`)
	add(`{"type":"response.content_part.done","output_index":1,"content_index":0,"part":{"type":"output_text","text":"…"}}`)
	add(`{"type":"response.output_item.done","output_index":1,"item":%s}`, itemAnswer)
	add(`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"write_file","arguments":""}}`)
	for range 17 {
		add(`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"x"}`)
	}
	add(`{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{}"}`)
	add(`{"type":"response.output_item.done","output_index":2,"item":%s}`, itemWrite)
	add(`{"type":"response.completed","response":%s}`, longDocument)
	return out
}

// deltasOf are the pieces of text among events.
func deltasOf(events []string) []string {
	var out []string
	for _, e := range events {
		var ev struct{ Type, Delta string }
		if json.Unmarshal([]byte(e), &ev) == nil && ev.Type == "response.output_text.delta" {
			out = append(out, ev.Delta)
		}
	}
	return out
}

// answered checks that a whole answer arrived, once, and nothing but it.
func answered(g got, exactText bool) error {
	switch {
	case g.Err != nil:
		return g.Err
	case g.Response == nil || g.Response.Status != "completed":
		return errors.New("no completed answer")
	}
	var items []string
	for _, i := range g.Response.Items {
		items = append(items, string(i))
	}
	if strings.Join(items, "") != itemReasoning+itemAnswer+itemWrite {
		return fmt.Errorf("items %s", items)
	}
	if all := strings.Join(deltasOf(longStream()), ""); exactText && g.text() != all {
		return fmt.Errorf("text %q, want %q", g.text(), all)
	}
	return nil
}
