package responsesapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// delivery is the part of a turn's journal that one response shows: from the request
// or the client's results to the answer, or to the client's calls.
type delivery struct {
	id   responseID
	key  agent.TurnKey
	mode agent.ModeKey // when it began
	// steps begin with the accepted or the continued one; the last one ends the
	// delivery, unless it is still in progress.
	steps []agent.Step
	note  json.RawMessage
}

// deliveries counts the deliveries that a turn has begun.
func deliveries(steps []agent.Step) int {
	n := 1
	for _, s := range steps {
		if s.Kind == agent.StepContinued {
			n++
		}
	}
	return n
}

// continuedBy returns the number of the delivery that these results began.
func continuedBy(steps []agent.Step, sha string) int {
	n := 1
	for _, s := range steps {
		if s.Kind == agent.StepContinued {
			n++
			if s.Continued.SHA256 == sha {
				return n
			}
		}
	}
	return n
}

// segment cuts delivery n out of a journal; nil when there is none.
func segment(steps []agent.Step, n int) []agent.Step {
	at := 1
	begin := -1
	for i, s := range steps {
		switch {
		case s.Kind == agent.StepAccepted && n == 1:
			begin = i
		case s.Kind == agent.StepContinued:
			if at++; at == n {
				begin = i
			}
		}
		if begin >= 0 && endsResponse(s) {
			return steps[begin : i+1]
		}
	}
	if begin < 0 {
		return nil
	}
	return steps[begin:]
}

// endsResponse reports whether a delivery ends with this step. What the turn asks its user
// is asked at the other door, and the response goes on after it.
func endsResponse(s agent.Step) bool { return s.HandsOver() || s.Kind == agent.StepSettled }

// callsOf returns the client calls with which delivery n ended.
func callsOf(steps []agent.Step, n int) []agent.ToolCall {
	cut := segment(steps, n)
	if len(cut) == 0 || cut[len(cut)-1].Waiting == nil {
		return nil
	}
	return cut[len(cut)-1].Waiting.Calls
}

// noteOf returns what was kept of the request behind delivery n. A turn that went on
// at another door shows what it began with.
func noteOf(steps []agent.Step, n int) json.RawMessage {
	cut := segment(steps, n)
	if len(cut) == 0 {
		return nil
	}
	if c := cut[0].Continued; c != nil && len(c.Door) > 0 {
		return c.Door
	}
	for _, s := range steps {
		if s.Accepted != nil {
			return s.Accepted.Door
		}
	}
	return nil
}

// read finds a response by its id.
func (d *Door) read(ctx context.Context, by agent.Caller, text string) (delivery, error) {
	id, ok := parseID(text)
	if !ok {
		return delivery{}, errNoResponse(text)
	}
	turn, err := d.turns.Turn(ctx, id.key(by))
	if agent.KindOf(err) == agent.KindNotFound {
		return delivery{}, errNoResponse(text)
	}
	if err != nil {
		return delivery{}, err
	}
	steps, err := d.turns.Steps(ctx, turn.Key)
	if err != nil {
		return delivery{}, fmt.Errorf("read journal of turn %s: %w", turn.Key, err)
	}
	return deliveryOf(id, turn, steps)
}

func deliveryOf(id responseID, turn agent.Turn, steps []agent.Step) (delivery, error) {
	v := delivery{id: id, key: turn.Key, mode: turn.Mode, steps: segment(steps, id.n), note: noteOf(steps, id.n)}
	if len(v.steps) == 0 {
		return v, errNoResponse(id.String())
	}
	if id.n > 1 {
		before := segment(steps, id.n-1)
		if len(before) == 0 {
			return v, fmt.Errorf("response %s goes on from one that the journal does not have", id)
		}
		if w := before[len(before)-1].Waiting; w != nil {
			a, err := answerOf(w.Response)
			if err != nil {
				return v, err
			}
			v.mode = a.Mode
		}
	}
	return v, nil
}

// end is the step that ends the delivery, nil while it is in progress.
func (v delivery) end() *agent.Step {
	if last := &v.steps[len(v.steps)-1]; endsResponse(*last) {
		return last
	}
	return nil
}

// asked are the calls for which the delivery waits for the user; none when it does not.
func (v delivery) asked() []agent.Approval {
	if !v.steps[len(v.steps)-1].AsksUser() {
		return nil
	}
	var open []agent.Approval
	for _, s := range v.steps {
		switch s.Kind {
		case agent.StepAskedUser:
			open = append(open, *s.AskedUser)
		case agent.StepDecided:
			open = slices.DeleteFunc(open, func(a agent.Approval) bool { return a.ID == s.Decided.ID })
		}
	}
	return open
}

// inProgress is the response while it has not ended. One that waits for the user says so
// in its metadata: the API has no other word for it.
func (v delivery) inProgress() (render.Response, error) {
	r, err := v.begun()
	asked := v.asked()
	if err != nil || len(asked) == 0 {
		return r, err
	}
	pairs := map[string]string{}
	if err := json.Unmarshal(r.Echo.Metadata, &pairs); err != nil {
		return r, fmt.Errorf("read the metadata of response %s: %w", v.id, err)
	}
	names := make([]string, len(asked))
	for i, a := range asked {
		names[i] = string(a.ID) + " " + a.Name
	}
	pairs["aptix_waits_for"] = "approval"
	pairs["aptix_approvals"] = clip(strings.Join(names, ", "), maxMetadataValue)
	r.Echo.Metadata, err = jsonv2.Marshal(pairs, jsonv2.Deterministic(true))
	return r, err
}

// fault is why the delivery has no answer, nil when it has one or may still get it.
func (v delivery) fault() error {
	end := v.end()
	if end == nil || end.Settled == nil {
		return nil
	}
	switch end.Settled.State {
	case agent.TurnFailed:
		if end.Settled.Fault == nil {
			return &agent.Error{Fault: agent.FaultOf(nil)}
		}
		return &agent.Error{Fault: *end.Settled.Fault}
	case agent.TurnCancelled:
		return agent.Errorf(agent.KindTurnCancelled, "The response was cancelled.")
	}
	return nil
}

// answer is what a turn's answer says beside the text: both kinds of the mode, a final
// one also of what the user should know.
type answer struct {
	Mode         agent.ModeKey     `json:"mode"`
	ModeChange   *agent.ModeSwitch `json:"modeChange"`
	UserWarnings []string          `json:"userWarnings"`
}

func answerOf(response json.RawMessage) (answer, error) {
	var a answer
	if len(response) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(response, &a); err != nil {
		return a, fmt.Errorf("read a stored answer: %w", err)
	}
	return a, nil
}

// begun is the response as far as it is known when it begins.
func (v delivery) begun() (render.Response, error) {
	r := render.Response{ID: v.id.String(), CreatedAt: v.steps[0].At.Unix(), Conversation: string(v.key.Session)}
	if len(v.note) > 0 {
		if err := jsonv2.Unmarshal(v.note, &r.Echo); err != nil {
			return r, fmt.Errorf("read the note of response %s: %w", r.ID, err)
		}
	}
	var err error
	r.Echo.Metadata, err = v.metadata(r.Echo.Metadata, answer{Mode: v.mode})
	return r, err
}

// ended is the response when it has ended, but for its output.
func (v delivery) ended() (render.Response, error) {
	r, err := v.begun()
	if err != nil {
		return r, err
	}
	end := v.end()
	for _, s := range v.steps {
		if s.Answered != nil {
			r.Usage = r.Usage.Add(s.Answered.Usage)
		}
	}
	var response json.RawMessage
	switch {
	case end.Waiting != nil:
		response, r.CompletedAt = end.Waiting.Response, end.At.Unix()
	case end.Settled.State == agent.TurnCompleted:
		response, r.CompletedAt = end.Settled.Response, end.At.Unix()
	case end.Settled.State == agent.TurnCancelled:
		r.Cancelled = true
	default:
		f := agent.FaultOf(v.fault())
		if r.Incomplete = incompleteReason(f); r.Incomplete != "" {
			break
		}
		r.Failure = &render.Failure{Code: failureCode(f.Kind), Message: f.Message}
	}
	if len(response) == 0 {
		return r, nil
	}
	a, err := answerOf(response)
	if err != nil {
		return r, err
	}
	r.Echo.Metadata, err = v.metadata(r.Echo.Metadata, a)
	return r, err
}

// incompleteReason is the API's word, of a closed set, for why an answer is incomplete;
// empty for a fault that is another one.
func incompleteReason(f agent.Fault) string {
	if f.Kind != agent.KindAnswerIncomplete {
		return ""
	}
	switch f.Reason {
	case "max_output_tokens", "content_filter":
		return f.Reason
	}
	return "" // a word that no client knows
}

// failureCode is the API's word, of a closed set, for why a response failed.
func failureCode(kind agent.Kind) string {
	if kind == agent.KindRateLimited {
		return "rate_limit_exceeded"
	}
	return "server_error"
}

// metadata returns the client's pairs with what this server adds. Its own pairs win:
// the mode is the session's, whatever the client claimed (AGN-011 §3.3, §3.4).
func (v delivery) metadata(sent json.RawMessage, a answer) (json.RawMessage, error) {
	pairs := map[string]string{}
	if len(sent) > 0 {
		if err := json.Unmarshal(sent, &pairs); err != nil {
			return nil, fmt.Errorf("read the metadata of response %s: %w", v.id, err)
		}
	}
	pairs["mode"] = string(a.Mode)
	if c := a.ModeChange; c != nil {
		pairs["previous_mode"] = string(c.PreviousMode)
		pairs["mode_change_reason"] = clip(c.Reason, maxMetadataValue)
		pairs["mode_branch"] = fmt.Sprint(c.Branch)
	}
	var warnings []string
	switch first := v.steps[0]; {
	case first.Accepted != nil:
		warnings = first.Accepted.Warnings
	case first.Continued != nil:
		warnings = first.Continued.Warnings
	}
	for _, w := range a.UserWarnings {
		if !slices.Contains(warnings, w) {
			warnings = append(slices.Clip(warnings), w)
		}
	}
	if len(warnings) > 0 {
		pairs["aptix_warning"] = clip(strings.Join(warnings, " "), maxMetadataValue)
	}
	raw, err := jsonv2.Marshal(pairs, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write the metadata of response %s: %w", v.id, err)
	}
	return raw, nil
}

// calls are the function_call items with which the delivery ended.
func (v delivery) calls() []render.Item {
	end := v.end()
	if end == nil || end.Waiting == nil {
		return nil
	}
	var out []render.Item
	for i, c := range end.Waiting.Calls {
		out = append(out, render.Call{ID: fmt.Sprintf("fc_%s_%d", v.id.itemTag(), i), CallID: string(c.ID), Name: c.Name, Arguments: c.Arguments})
	}
	return out
}
