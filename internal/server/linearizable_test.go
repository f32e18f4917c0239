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

	"github.com/aptixhq/aptix/internal/invariants"
	"github.com/aptixhq/aptix/internal/prove"
)

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
	note := func(who int, in invariants.ModeAccess, do func() (invariants.ModeSeen, bool)) {
		call := time.Since(began).Nanoseconds()
		out, ok := do()
		if !ok {
			return // a refused request saw nothing and did nothing
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: who, Input: in, Output: out, Call: call, Return: time.Since(began).Nanoseconds()})
	}
	session := func(status int, a map[string]any) (invariants.ModeSeen, bool) {
		if status != http.StatusOK {
			t.Errorf("%d %v", status, a)
			return invariants.ModeSeen{}, false
		}
		return invariants.ModeSeen{Mode: a["mode"].(string), Changes: int(a["version"].(float64)) - 1}, true
	}
	modes := []string{"general", "ddr_authoring", "workflow_authoring"}
	const rounds = 25
	var clients sync.WaitGroup
	for who := range 3 {
		clients.Go(func() { // switches by hand
			for n := range rounds {
				m := modes[(who+n)%3]
				note(who, invariants.ModeAccess{Mode: m}, func() (invariants.ModeSeen, bool) {
					return session(call("PUT", "/v1/sessions/s1/mode", `{"mode":"`+m+`","reason":"r"}`))
				})
			}
		})
		clients.Go(func() { // reads
			for range rounds {
				note(3+who, invariants.ModeAccess{}, func() (invariants.ModeSeen, bool) { return session(call("GET", "/v1/sessions/s1", "")) })
				note(3+who, invariants.ModeAccess{}, func() (invariants.ModeSeen, bool) {
					status, a := call("GET", "/v1/sessions/s1/mode-history?limit=200", "")
					if status != http.StatusOK {
						t.Errorf("%d %v", status, a)
						return invariants.ModeSeen{}, false
					}
					rows := a["data"].([]any)
					if len(rows) == 0 {
						return invariants.ModeSeen{Mode: "general", Changes: 0}, true
					}
					return invariants.ModeSeen{Mode: rows[len(rows)-1].(map[string]any)["mode"].(string), Changes: len(rows)}, true
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
			turn := func() (invariants.ModeSeen, bool) {
				status, a := call("POST", "/v1/agent/execute", fmt.Sprintf(`{"sessionId":"s1","turnId":"t%d","instruction":"%s"}`, n, ask))
				if status != http.StatusOK {
					t.Errorf("%d %v", status, a)
					return invariants.ModeSeen{}, false
				}
				return invariants.ModeSeen{Mode: a["mode"].(string), Changes: -1}, true
			}
			if m == "" {
				note(6, invariants.ModeAccess{}, turn)
				continue
			}
			// Its tool writes and its answer reads: two accesses in the same time.
			note(6, invariants.ModeAccess{}, func() (out invariants.ModeSeen, ok bool) {
				note(7, invariants.ModeAccess{Mode: m}, func() (invariants.ModeSeen, bool) {
					out, ok = turn()
					return invariants.ModeSeen{Mode: "", Changes: -1}, ok
				})
				return out, ok
			})
		}
	})
	clients.Wait()

	result, info := porcupine.CheckOperationsVerbose(invariants.ModeRegister, history, 20*time.Second)
	if result != porcupine.Ok {
		page := filepath.Join(t.ArtifactDir(), "mode.html")
		if err := porcupine.VisualizePath(invariants.ModeRegister, info, page); err != nil {
			t.Error(err)
		}
		t.Errorf("%d operations: %s; see %s (kept with -artifacts)", len(history), result, page)
	}
}
