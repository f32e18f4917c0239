// Package floor holds the least that can stand in front of a model: a reverse proxy,
// and a handler that keeps a conversation with one durable commit for each turn.
// Whatever a real server adds is measured against them. They are fair where it counts
// and nothing else: no bounds, no recovery, no answer to a second attempt.
//
// A stream has the order of the model's, a slow reader holds up its own turn, and what
// a lost connection cuts off is lost.
package floor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aptixhq/aptix/bench/sse"
)

// maxCalls bounds the model calls of a turn.
const maxCalls = 8

// head begins each request; the conversation follows.
const head = `{"model":"mock","stream":true,"store":false,"instructions":"You are a helpful assistant.",` +
	`"tools":[{"type":"function","name":"get_weather","description":"Returns the weather.","parameters":{"type":"object","properties":{}}}],"input":[`

// Config says what a Server does. DB is a file that does not exist yet.
type Config struct {
	Model string // the address of the API, without /v1
	DB    string
	// Group lets turns that end at the same time share a commit.
	Group bool
}

// Server answers POST /turn {"session", "text"} with events: delta {"text"} for each
// piece of the answer, and done once the turn is on the disk.
type Server struct {
	http.ServeMux
	model  string
	client *http.Client
	store  *store
}

// New opens the database and returns a server. Close it when no request runs.
func New(cfg Config) (*Server, error) {
	st, err := openStore(cfg.DB, cfg.Group)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.DB, err)
	}
	s := &Server{model: cfg.Model + "/v1/responses", client: &http.Client{Transport: transport()}, store: st}
	s.HandleFunc("POST /turn", s.turn)
	return s, nil
}

// Close closes the database.
func (s *Server) Close() error { return s.store.close() }

func (s *Server) turn(w http.ResponseWriter, r *http.Request) {
	var in struct{ Session, Text string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if err := s.run(r.Context(), w, in.Session, in.Text); err != nil {
		_, _ = fmt.Fprintf(w, "event: error\ndata: %q\n\n", err)
		return
	}
	_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
}

// run asks the model until it has said something, and stores the turn.
func (s *Server) run(ctx context.Context, w http.ResponseWriter, session, text string) error {
	items, err := s.store.load(ctx, session)
	if err != nil {
		return err
	}
	known := len(items)
	items = append(items, item(map[string]string{"role": "user", "content": text}))
	for range maxCalls {
		added, called, err := s.ask(ctx, w, items)
		if err != nil {
			return err
		}
		items = append(items, added...)
		if !called {
			return s.store.save(session, items[known:])
		}
	}
	return errors.New("the model wants nothing but tools")
}

// ask sends the conversation, passes the text on as it comes, and returns the items
// that the answer adds, with the outputs of its calls.
func (s *Server) ask(ctx context.Context, w http.ResponseWriter, items [][]byte) (added [][]byte, called bool, err error) {
	body := append([]byte(head), bytes.Join(items, []byte(","))...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.model, bytes.NewReader(append(body, "]}"...)))
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("the model answers %s", res.Status)
	}
	flush := http.NewResponseController(w).Flush
	var said []byte
	completed := false
	for events := sse.NewReader(res.Body); ; {
		e, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
		switch string(e.Name) {
		case "response.output_text.delta":
			var d struct{ Delta string }
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return nil, false, err
			}
			said = append(said, d.Delta...)
			if _, err := fmt.Fprintf(w, "event: delta\ndata: {\"text\":%q}\n\n", d.Delta); err != nil {
				return nil, false, err
			}
			if err := flush(); err != nil {
				return nil, false, err
			}
		case "response.output_item.done":
			var d struct {
				Item struct {
					Type, Name, Arguments string
					CallID                string `json:"call_id"`
				}
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return nil, false, err
			}
			if d.Item.Type == "function_call" {
				called = true
				added = append(added,
					item(map[string]string{"type": "function_call", "call_id": d.Item.CallID, "name": d.Item.Name, "arguments": d.Item.Arguments}),
					item(map[string]string{"type": "function_call_output", "call_id": d.Item.CallID, "output": "22 degrees and sunny"}))
			}
		case "response.completed":
			completed = true
		}
	}
	if !completed {
		return nil, false, errors.New("the model's stream was cut")
	}
	if len(said) > 0 {
		added = append(added, item(map[string]string{"role": "assistant", "content": string(said)}))
	}
	return added, called, nil
}

// item is one item of a conversation as it goes over the wire.
func item(members map[string]string) []byte {
	b, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}
