package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
)

// Preview is the request that a turn would send, and its hashes.
type Preview struct {
	Canonical       string          `json:"canonical" doc:"The canonical request of AGN-003, byte for byte."`
	CanonicalSHA256 string          `json:"canonicalSha256" pattern:"^[0-9a-f]{64}$"`
	Wire            string          `json:"wire" doc:"The body that would be posted to the provider, byte for byte."`
	WireSHA256      string          `json:"wireSha256" pattern:"^[0-9a-f]{64}$"`
	Mode            agent.ModeKey   `json:"mode" doc:"The session's mode, from which the tools are chosen."`
	Tools           json.RawMessage `json:"tools" doc:"The tools of the turn: the client's, the mode's, and agent_change_mode."`
}

// execute takes one of AGN-034's two scenarios and answers with the turn's outcome,
// as JSON or as a stream of events (AGN-034 §4.7). It stays on the stack for as long as
// the stream is open, so what needs room there has a function of its own.
func (s *Server) execute(w http.ResponseWriter, r *http.Request) error {
	turn, err := s.accept(w, r)
	if err != nil {
		return err
	}
	if !turn.stream {
		return s.answerTurn(w, r, turn.key)
	}
	return deliver(s, w, r, s.turns.Reader(turn.key, turn.after), turnFrames(exchangeOf(r).id))
}

// accept reads the request and hands it to the pipeline.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) (startedTurn, error) {
	if s.draining.Load() {
		return startedTurn{}, agent.Errorf(agent.KindDraining, "The server is going down and takes no new work. Send the same request again shortly.")
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return startedTurn{}, err
	}
	req, err := contract.DecodeExecute(body, s.limits)
	if err != nil {
		return startedTurn{}, err
	}
	if u := req.User; u != nil && u.Stream != nil && *u.Stream {
		if err := s.quotas.mayStream(callerOf(r)); err != nil {
			return startedTurn{}, err
		}
	}
	started, err := s.start(r, req)
	if err == nil {
		exchangeOf(r).turn = started.key
	}
	// The turn has its own copy of what it needs, and may take long.
	s.bodies.letGo(exchangeOf(r))
	return started, err
}

// answerFresh is how long the credential of a request that waits for its answer is taken
// for as good as it was.
const answerFresh = time.Second

// answerTurn answers with how the turn's delivery ends.
func (s *Server) answerTurn(w http.ResponseWriter, r *http.Request, key agent.TurnKey) error {
	t, err := s.turns.Await(r.Context(), key)
	if err != nil {
		return err
	}
	if err := s.still(exchangeOf(r), r, time.Now(), answerFresh); err != nil {
		return err
	}
	return writeOutcome(w, t)
}

// startedTurn is a turn that runs, or has run, and how its client wants to hear of it.
type startedTurn struct {
	key    agent.TurnKey
	after  int64
	stream bool
}

// start hands the request to the pipeline. From its return on the turn is durable
// and does not depend on this connection. The stream preference of a continuation is
// its turn's (decision 9).
func (s *Server) start(r *http.Request, req contract.Request) (startedTurn, error) {
	if c := req.Continuation; c != nil {
		key, after, stream, err := s.turns.Continue(r.Context(), callerOf(r), *c)
		return startedTurn{key, after, stream}, err
	}
	key, after, err := s.turns.Submit(r.Context(), callerOf(r), *req.User)
	return startedTurn{key, after, req.User.Stream != nil && *req.User.Stream}, err
}

// writeOutcome answers with how a turn's delivery ended. The response is sent as it
// is stored, so that asking again gives the same bytes.
func writeOutcome(w http.ResponseWriter, t agent.Turn) error {
	switch {
	case t.State == agent.TurnFailed:
		fault := faultOf(t.Fault)
		// The wait began when the turn failed, which may be a while ago.
		fault.RetryAfter = max(0, fault.RetryAfter-time.Since(t.UpdatedAt))
		return &agent.Error{Fault: fault}
	case t.State == agent.TurnCancelled:
		return agent.Errorf(agent.KindTurnCancelled, "The turn was cancelled. Send a new one under a fresh turnId.")
	case len(t.Response) == 0:
		return agent.Errorf(agent.KindInternal, "turn %s rests in state %s without a response", t.Key, t.State)
	}
	return writeBody(w, http.StatusOK, "application/json", t.Response)
}

// preview answers with the very bytes that the turn would send. Nothing is stored
// and no model is called.
func (s *Server) preview(w http.ResponseWriter, r *http.Request) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	turn, err := contract.DecodePreview(body, s.limits)
	if err != nil {
		return err
	}
	p, err := s.turns.Preview(r.Context(), callerOf(r), *turn)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, Preview{
		Canonical: p.Canonical, CanonicalSHA256: p.CanonicalSHA256,
		Wire: p.Wire, WireSHA256: p.WireSHA256, Mode: p.Mode, Tools: arrayOf(p.Tools),
	})
}
