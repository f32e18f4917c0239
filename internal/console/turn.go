package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/pipeline"
)

// turnPage is a turn from the inside.
type turnPage struct {
	turnView
	Title string
	Spans []span
	Total time.Duration
	Calls []callView
	// Numbers are those of the calls, of which two can be compared.
	Numbers []int
}

// callView is one model call, for reading. Its exact bytes are a link away.
type callView struct {
	pipeline.ModelCall
	CanonicalText, WireText string
	Link                    string
}

func (c *Console) turn(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	_, t, err := c.turnOf(r, by)
	if err != nil {
		return err
	}
	p := turnPage{Title: titleOf(t)}
	if p.turnView, err = c.viewOf(r.Context(), t); err != nil {
		return err
	}
	steps, err := c.turns.Steps(r.Context(), t.Key)
	if err != nil {
		return err
	}
	p.Spans, p.Total = waterfall(t, steps, c.now())
	calls, err := c.turns.Requests(r.Context(), t.Key)
	if err != nil {
		return err
	}
	for _, call := range calls {
		p.Numbers = append(p.Numbers, call.N)
		p.Calls = append(p.Calls, callView{ModelCall: call, CanonicalText: readable(call.Canonical), WireText: readable(call.Wire),
			Link: fmt.Sprintf("/sessions/%s/turns/%s/calls/%d/", t.Key.Session, t.Key.Turn, call.N)})
	}
	return c.show(w, r, http.StatusOK, page{Title: "Turn " + string(t.Key.Turn), Nav: "chat", Body: "turn-page", Data: p})
}

// call finds a model call of a turn by its number.
func (c *Console) call(ctx context.Context, key agent.TurnKey, number string) (pipeline.ModelCall, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return pipeline.ModelCall{}, errNoCall()
	}
	calls, err := c.turns.Requests(ctx, key)
	if err != nil {
		return pipeline.ModelCall{}, err
	}
	for _, call := range calls {
		if call.N == n {
			return call, nil
		}
	}
	return pipeline.ModelCall{}, errNoCall()
}

func errNoCall() error { return agent.Errorf(agent.KindNotFound, "The turn has no such model call.") }

// formOf returns one of the two forms of a call.
func formOf(call pipeline.ModelCall, form string) (string, error) {
	switch form {
	case "canonical":
		return call.Canonical, nil
	case "wire":
		return call.Wire, nil
	}
	return "", agent.Errorf(agent.KindNotFound, "A model call has two forms: canonical and wire.")
}

// callBytes answers with a request byte for byte, to be kept.
func (c *Console) callBytes(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	_, t, err := c.turnOf(r, by)
	if err != nil {
		return err
	}
	call, err := c.call(r.Context(), t.Key, r.PathValue("n"))
	if err != nil {
		return err
	}
	form := r.PathValue("form")
	text, err := formOf(call, form)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fmt.Sprintf("%s-%d-%s.json", t.Key.Turn, call.N, form)))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text)) // a reader who is gone misses nothing
	return nil
}
