package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// fault is a way in which the provider answers; header is the credential that it was sent.
type fault func(c *colony, w http.ResponseWriter, header string)

// answers are the ways in which the provider answers "do:NAME". All but the good ones repeat
// the key wherever a provider could.
func answers() map[string]fault {
	json := func(status int, body string) fault {
		return func(_ *colony, w http.ResponseWriter, header string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Seen", header)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "KEY", header))
		}
	}
	plain := func(kind string, status int, body string) fault {
		return func(_ *colony, w http.ResponseWriter, header string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "KEY", header))
		}
	}
	const refusal = `{"error":{"message":"no: KEY","code":"KEY","param":"KEY","type":"KEY"}}`
	call := func(name, id, arguments string) fault {
		return json(200, fmt.Sprintf(`{"id":"resp_%s","object":"response","status":"completed","output":[{"type":"function_call","id":"fc_%s","call_id":%q,"name":%q,"arguments":%q,"status":"completed"}],
			"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, id, id, id, name, arguments))
	}
	return map[string]fault{
		"ok":           json(200, said("Fine.")),
		"401":          json(401, refusal),
		"403":          json(403, `{"error":"no: KEY"}`),
		"429":          json(429, refusal),
		"500":          plain("text/html", 500, "<html><body>KEY</body></html>"),
		"400-text":     plain("text/plain", 400, "no: KEY"),
		"problem":      plain("application/problem+json", 422, `{"message":"no: KEY","detail":"KEY"}`),
		"odd-status":   plain("text/plain", 299, "KEY"),
		"half-json":    json(200, `{"id":"KEY`),
		"other-json":   json(200, `["KEY"]`),
		"failed":       json(200, `{"id":"resp_f","object":"response","status":"failed","error":{"code":"KEY","message":"no: KEY"},"output":[]}`),
		"incomplete":   json(200, `{"id":"resp_i","object":"response","status":"incomplete","incomplete_details":{"reason":"KEY"},"output":[]}`),
		"sse-error":    plain("text/event-stream", 200, "event: error\ndata: {\"type\":\"error\",\"message\":\"no: KEY\",\"code\":\"KEY\",\"param\":\"KEY\"}\n\n"),
		"sse-failed":   plain("text/event-stream", 200, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"KEY\",\"message\":\"no: KEY\"},\"output\":[]}}\n\n"),
		"sse-cut":      plain("text/event-stream", 200, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n: KEY\n\nevent: KEY\n"),
		"sse-junk":     plain("text/event-stream", 200, "data: KEY\n\n"),
		"client-tool":  call("look", "call_look", `{"at":"ARGUMENTS"}`),
		"mcp-echo":     call("remote__echo", "call_echo", `{"text":"HEADER ARGUMENTS"}`),
		"mcp-refuse":   call("remote__refuse", "call_refuse", `{"text":"HEADER"}`),
		"mcp-fail":     call("remote__echo", "call_fail", `{"text":"FAIL"}`),
		"local-tool":   call("files__echo", "call_local", `{"text":"hello"}`),
		"wrecked-tool": call("files__crash", "call_crash", `{}`),
		"mcp-wrong":    call("files__add", "call_wrong", `{"a":"ARGUMENTS"}`),
		"no-tool":      call("nothing", "call_nothing", `{"a":"ARGUMENTS"}`),
		"redirect": func(_ *colony, w http.ResponseWriter, header string) {
			w.Header().Set("Location", "/elsewhere?key="+header)
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"drop": func(*colony, http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
	}
}

func said(text string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed",
		"content":[{"type":"output_text","text":%q,"annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, text)
}

func (c *colony) faults() []string { return slices.Sorted(maps.Keys(answers())) }

// provider is a model that answers as the last message of the user says, and an embeddings
// API.
func (c *colony) provider(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	header := r.Header.Get("Authorization")
	asked := string(body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		c.embed(w, header, asked)
	case strings.HasSuffix(r.URL.Path, "/models") && !strings.HasPrefix(r.URL.Path, "/echo"):
		_, _ = io.WriteString(w, `{"data":[{"id":"gpt-5-mini"}]}`)
	case strings.Contains(asked, "do:hang"):
		c.hung <- struct{}{}
		<-r.Context().Done()
	case strings.Contains(asked, "function_call_output"):
		answers()["ok"](c, w, header)
	default:
		_, rest, _ := strings.Cut(asked, "do:")
		name := rest[:max(0, strings.IndexAny(rest+" ", ` "\`))]
		answer := answers()[name]
		if answer == nil {
			answer = answers()["401"]
		}
		answer(c, &planting{w, "ARGUMENTS", c.canary["arguments"]}, header)
	}
}

func (c *colony) embed(w http.ResponseWriter, header, asked string) {
	if c.embeddingsFail.Load() {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"no: %s, for %q"}}`, header, asked)
		return
	}
	n := strings.Count(asked[strings.Index(asked, `"input"`):], `",`) + 1
	var data []string
	for i := range n {
		data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,0,0]}`, i))
	}
	_, _ = fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
}
