package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// Turns is what the edge needs of the pipeline. A turn of another organisation is
// agent.KindNotFound everywhere.
type Turns interface {
	// Submit accepts a user turn durably; it may be known already. The events of its
	// current delivery are those after the returned sequence.
	Submit(ctx context.Context, by agent.Caller, u contract.UserTurn) (key agent.TurnKey, after int64, err error)
	// Continue accepts tool results; stream is the turn's preference.
	Continue(ctx context.Context, by agent.Caller, c contract.ToolContinuation) (key agent.TurnKey, after int64, stream bool, err error)
	// Await returns the turn once it is terminal or waiting.
	Await(ctx context.Context, key agent.TurnKey) (agent.Turn, error)
	// Reader reads the turn's events after a sequence. It ends after the event that
	// ends the turn, or after a turn.waiting that nothing follows yet; with an error
	// when the server stops under the turn, or when there is no such turn.
	Reader(key agent.TurnKey, after int64) events.Reader[agent.Event]
	// Approvals returns the calls of the turn that wait for its user.
	Approvals(ctx context.Context, key agent.TurnKey) ([]agent.Approval, error)
	// Decide takes a user's decision on one of them.
	Decide(ctx context.Context, by agent.Caller, key agent.TurnKey, id agent.ApprovalID, v agent.Verdict) (pipeline.Approval, error)
	// Cancel asks for the turn's end. A turn that is over stays as it is.
	Cancel(ctx context.Context, key agent.TurnKey) error
	// Erase erases a session with everything under it, also what runs.
	Erase(ctx context.Context, by agent.Caller, id agent.SessionID) error
	Preview(ctx context.Context, by agent.Caller, u contract.UserTurn) (pipeline.Preview, error)
	// Requests returns the turn's model calls in order.
	Requests(ctx context.Context, key agent.TurnKey) ([]pipeline.ModelCall, error)
	Turn(ctx context.Context, key agent.TurnKey) (agent.Turn, error)
	// Turns pages through a session's turns, newest last.
	Turns(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.Turn, string, error)
}

// Turn is a turn as clients see it.
type Turn struct {
	TurnID    agent.TurnID    `json:"turnId"`
	SessionID agent.SessionID `json:"sessionId"`
	State     agent.TurnState `json:"state"`
	Mode      agent.ModeKey   `json:"mode" doc:"The session's mode when the turn's tools were frozen."`
	Ordinal   int64           `json:"ordinal" doc:"The position in the session: 1, 2, 3 …"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	Deadline  *time.Time      `json:"deadline,omitempty" doc:"When the turn is given up, while it is not over."`
	Response  json.RawMessage `json:"response,omitempty" doc:"The answer of the last delivery, of a completed and of a waiting turn."`
	Problem   *Problem        `json:"problem,omitempty" doc:"Why a failed turn failed."`
}

// turnView renders a turn for the client of one request.
func turnView(requestID string) func(agent.Turn) Turn {
	return func(t agent.Turn) Turn {
		v := Turn{
			TurnID: t.Key.Turn, SessionID: t.Key.Session, State: t.State, Mode: t.Mode, Ordinal: t.Ordinal,
			CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
		}
		if t.State == agent.TurnCompleted || t.State == agent.TurnWaiting {
			v.Response = t.Response
		}
		if t.State == agent.TurnFailed {
			p := problemOf(faultOf(t.Fault), requestID)
			v.Problem = &p
		}
		if !t.State.Terminal() && !t.Deadline.IsZero() {
			d := t.Deadline.UTC()
			v.Deadline = &d
		}
		return v
	}
}

// ModelCall is one model call of a turn as it was sent.
type ModelCall struct {
	N               int       `json:"n" minimum:"1" doc:"The number of the call within the turn."`
	Canonical       string    `json:"canonical" doc:"The canonical request of AGN-003, byte for byte."`
	CanonicalSHA256 string    `json:"canonicalSha256" pattern:"^[0-9a-f]{64}$"`
	Wire            string    `json:"wire" doc:"The body that was posted to the provider, byte for byte."`
	WireSHA256      string    `json:"wireSha256" pattern:"^[0-9a-f]{64}$"`
	At              time.Time `json:"at"`
	// Usage is absent until the model has answered.
	Usage *agent.Usage `json:"usage,omitempty"`
}

func (s *Server) listTurns(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	turns, next, err := s.turns.Turns(r.Context(), callerOf(r), id, page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(turns, next, turnView(exchangeOf(r).id)))
}

func (s *Server) getTurn(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	t, err := s.turns.Turn(r.Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, turnView(exchangeOf(r).id)(t))
}

// cancelTurn asks for the turn's end. It has come when this answers, unless a tool does
// not let go of the turn: the state in the answer tells.
func (s *Server) cancelTurn(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	if err := s.turns.Cancel(r.Context(), key); err != nil {
		return err
	}
	t, err := s.turns.Turn(r.Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, turnView(exchangeOf(r).id)(t))
}

func (s *Server) listRequests(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	calls, err := s.turns.Requests(r.Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(calls, "", func(c pipeline.ModelCall) ModelCall {
		return ModelCall{
			N: c.N, Canonical: c.Canonical, CanonicalSHA256: c.CanonicalSHA256,
			Wire: c.Wire, WireSHA256: c.WireSHA256, At: c.At.UTC(), Usage: c.Usage,
		}
	}))
}

// followTurn streams a turn from any point. It passes by the deliveries that are
// over and ends with the turn, or at the turn.waiting at which the turn stands: there
// the client has the next word, and follows on after it has spoken.
func (s *Server) followTurn(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	after, err := afterOf(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return s.headOfStream(w, r, key)
	}
	err = deliver(s, w, r, s.turns.Reader(key, after), turnFrames(exchangeOf(r).id))
	if errors.Is(err, errNothingMore) {
		// A turn at rest may have nothing left to show: an EventSource stops
		// reconnecting then.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return err
}

// headOfStream says that there is a stream, or that there is no such turn.
func (s *Server) headOfStream(w http.ResponseWriter, r *http.Request, key agent.TurnKey) error {
	if _, err := s.turns.Turn(r.Context(), key); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	return nil
}

// arrayOf returns an array for a JSON value that may be missing.
func arrayOf(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("[]")
	}
	return raw
}
