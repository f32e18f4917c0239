package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/aptixhq/aptix/internal/prove"
)

// register is a session as a register: its mode, and how often that was changed.
type register struct {
	Mode    string
	Changes int
}

// access is one request to it: a switch to Mode, or a read when that is empty. A turn
// reads, and its answer tells the mode alone.
type access struct{ Mode string }

// seen is what a request was told; Changes is -1 where the answer does not tell it, and
// Mode empty where it tells nothing.
type seen struct {
	Mode    string
	Changes int
}

var modeRegister = porcupine.Model{
	Init: func() any { return register{Mode: "general"} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(register), input.(access), output.(seen)
		if in.Mode != "" && in.Mode != s.Mode {
			s = register{in.Mode, s.Changes + 1}
		}
		return (out.Mode == "" || out.Mode == s.Mode) && (out.Changes == -1 || out.Changes == s.Changes), s
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v → %+v", input, output)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// What clients are told of a session's mode while they switch it, by hand, by a tool and
// in between turns, can be put into one order in which each saw what the one before left.
func TestMode_IsLinearizable(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-i", "AGN011-5.7-a")
	w := newWhole(t)
	web := httptest.NewServer(w.Server)
	defer web.Close()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	call := func(method, path, body string) (status int, answer map[string]any) {
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil || json.Unmarshal(text, &answer) != nil {
			t.Errorf("%s %s: %v in %s", method, path, err, text)
		}
		return res.StatusCode, answer
	}
	if status, answer := call("POST", "/v1/sessions", `{"sessionId":"s1","concurrency":"queue"}`); status != http.StatusCreated {
		t.Fatal(answer)
	}

	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	note := func(who int, in access, do func() (seen, bool)) {
		call := time.Since(began).Nanoseconds()
		out, ok := do()
		if !ok {
			return // a refused request saw nothing and did nothing
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: who, Input: in, Output: out, Call: call, Return: time.Since(began).Nanoseconds()})
	}
	session := func(status int, a map[string]any) (seen, bool) {
		if status != http.StatusOK {
			t.Errorf("%d %v", status, a)
			return seen{}, false
		}
		return seen{a["mode"].(string), int(a["version"].(float64)) - 1}, true
	}
	modes := []string{"general", "ddr_authoring", "workflow_authoring"}
	const rounds = 25
	var clients sync.WaitGroup
	for who := range 3 {
		clients.Go(func() { // switches by hand
			for n := range rounds {
				m := modes[(who+n)%3]
				note(who, access{m}, func() (seen, bool) {
					return session(call("PUT", "/v1/sessions/s1/mode", `{"mode":"`+m+`","reason":"r"}`))
				})
			}
		})
		clients.Go(func() { // reads
			for range rounds {
				note(3+who, access{}, func() (seen, bool) { return session(call("GET", "/v1/sessions/s1", "")) })
				note(3+who, access{}, func() (seen, bool) {
					status, a := call("GET", "/v1/sessions/s1/mode-history?limit=200", "")
					if status != http.StatusOK {
						t.Errorf("%d %v", status, a)
						return seen{}, false
					}
					rows := a["data"].([]any)
					if len(rows) == 0 {
						return seen{"general", 0}, true
					}
					return seen{rows[len(rows)-1].(map[string]any)["mode"].(string), len(rows)}, true
				})
			}
		})
	}
	clients.Go(func() { // turns
		for n := range rounds {
			ask, m := "hello", ""
			if n%2 == 0 {
				m = modes[n%3]
				ask = fmt.Sprintf(`call agent_change_mode {\"mode\":\"%s\",\"branch\":false,\"reason\":\"r\"}`, m)
			}
			turn := func() (seen, bool) {
				status, a := call("POST", "/v1/agent/execute", fmt.Sprintf(`{"sessionId":"s1","turnId":"t%d","instruction":"%s"}`, n, ask))
				if status != http.StatusOK {
					t.Errorf("%d %v", status, a)
					return seen{}, false
				}
				return seen{a["mode"].(string), -1}, true
			}
			if m == "" {
				note(6, access{}, turn)
				continue
			}
			// Its tool writes and its answer reads: two accesses in the same time.
			note(6, access{}, func() (out seen, ok bool) {
				note(7, access{m}, func() (seen, bool) {
					out, ok = turn()
					return seen{"", -1}, ok
				})
				return out, ok
			})
		}
	})
	clients.Wait()

	result, info := porcupine.CheckOperationsVerbose(modeRegister, history, 20*time.Second)
	if result != porcupine.Ok {
		page := filepath.Join(t.ArtifactDir(), "mode.html")
		if err := porcupine.VisualizePath(modeRegister, info, page); err != nil {
			t.Error(err)
		}
		t.Errorf("%d operations: %s; see %s (kept with -artifacts)", len(history), result, page)
	}
}
