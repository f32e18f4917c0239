package responsesapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
)

// Await returns the resource of a response as soon as it has ended, or waits for a decision
// of its user: then it is in progress and says so in its metadata. A response without
// an answer is its fault: a fault must never be taken for an answer. One that the
// provider cut short is a resource, as the API has it, and says so in its status.
func (d *Door) Await(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error) {
	v, err := d.rest(ctx, by, id)
	if err != nil {
		return nil, err
	}
	if err := v.fault(); err != nil && incompleteReason(agent.FaultOf(err)) == "" {
		return nil, err
	}
	return v.resource()
}

// rest returns a response that has ended, or waits for its user.
func (d *Door) rest(ctx context.Context, by agent.Caller, id string) (delivery, error) {
	for range 100 { // a decision may let the turn run on between waiting for it and reading
		v, err := d.read(ctx, by, id)
		if err != nil || v.end() != nil || len(v.asked()) > 0 {
			return v, err
		}
		if _, err := d.turns.Await(ctx, v.key); err != nil {
			return v, err
		}
	}
	return delivery{}, fmt.Errorf("response %s rests and its journal does not say how it ended", id)
}

// Get returns the resource of a response as it stands.
func (d *Door) Get(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error) {
	v, err := d.read(ctx, by, id)
	if err != nil {
		return nil, err
	}
	return v.resource()
}

// Cancel ends the turn of a response and returns the response. One that has ended
// stays as it is; a turn that waits for the calls of this response is given up.
func (d *Door) Cancel(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error) {
	v, err := d.read(ctx, by, id)
	if err != nil {
		return nil, err
	}
	if err := d.turns.Cancel(ctx, v.key); err != nil {
		return nil, err
	}
	if v, err = d.rest(ctx, by, id); err != nil {
		return nil, err
	}
	return v.resource()
}

// Delete erases the conversation of a response that is alone in it. A turn cannot be
// taken out of a session: the model's memory and the history of modes stand on it.
func (d *Door) Delete(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error) {
	v, err := d.read(ctx, by, id)
	if err != nil {
		return nil, err
	}
	turns, _, err := d.turns.Turns(ctx, by, v.key.Session, store.Page{Limit: 2})
	if err != nil {
		return nil, err
	}
	if len(turns) > 1 {
		return nil, &Error{code: codeNotAlone, err: agent.Errorf(agent.KindTurnConflict,
			"The response is part of the conversation %q, whose later answers rest on it, and cannot be erased alone. DELETE /v1/sessions/%s erases the whole conversation.", v.key.Session, v.key.Session)}
	}
	if err := d.turns.Erase(ctx, by, v.key.Session); err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "response", true})
}

// inputItem is an item of the input as it is listed.
type inputItem struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Role    string      `json:"role,omitempty"`
	Content []inputPart `json:"content,omitempty"`
	CallID  string      `json:"call_id,omitempty"`
	Output  *string     `json:"output,omitempty"`
}

// inputPart is a part of a message. Images and files are named; their contents are
// not sent again.
type inputPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Detail   string  `json:"detail,omitempty"`
	Filename string  `json:"filename,omitempty"`
}

// InputItems lists what the request behind a response said, as the turn took it.
func (d *Door) InputItems(ctx context.Context, by agent.Caller, id string, query url.Values) (json.RawMessage, error) {
	v, err := d.read(ctx, by, id)
	if err != nil {
		return nil, err
	}
	items, err := d.inputItems(ctx, v)
	if err != nil {
		return nil, err
	}
	switch order := query.Get("order"); order {
	case "", "desc":
		slices.Reverse(items)
	case "asc":
	default:
		return nil, refuse("order", codeInvalidValue, "'order' is asc or desc.")
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(items, func(it inputItem) bool { return it.ID == after })
		if i < 0 {
			return nil, refuse("after", codeInvalidValue, "There is no item %q in this list.", clip(after, 80))
		}
		items = items[i+1:]
	}
	limit := 20
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > 100 {
			return nil, refuse("limit", codeInvalidValue, "'limit' is a number from 1 to 100.")
		}
	}
	more := len(items) > limit
	items = items[:min(limit, len(items))]
	page := struct {
		Object  string      `json:"object"`
		Data    []inputItem `json:"data"`
		FirstID *string     `json:"first_id"`
		LastID  *string     `json:"last_id"`
		HasMore bool        `json:"has_more"`
	}{Object: "list", Data: items, HasMore: more}
	if n := len(items); n > 0 {
		page.FirstID, page.LastID = &items[0].ID, &items[n-1].ID
	} else {
		page.Data = []inputItem{}
	}
	return json.Marshal(page)
}

func (d *Door) inputItems(ctx context.Context, v delivery) ([]inputItem, error) {
	if c := v.steps[0].Continued; c != nil {
		var items []inputItem
		for i, r := range c.Results {
			text := r.Result
			if r.Err != "" {
				text = r.Err
			}
			items = append(items, inputItem{ID: fmt.Sprintf("fco_%s_%d", v.id.itemTag(), i), Type: kindOutput, Status: "completed",
				CallID: string(r.CallID), Output: &text})
		}
		return items, nil
	}
	turn, err := d.turns.Turn(ctx, v.key)
	if err != nil {
		return nil, err
	}
	var u contract.UserTurn
	if err := json.Unmarshal(turn.Request, &u); err != nil {
		return nil, fmt.Errorf("read the request of turn %s: %w", v.key, err)
	}
	it := inputItem{ID: fmt.Sprintf("msg_%s_in", v.id.itemTag()), Type: kindMessage, Status: "completed", Role: "user"}
	if u.Instruction != "" {
		it.Content = append(it.Content, inputPart{Type: "input_text", Text: &u.Instruction})
	}
	for range u.ClipboardImages {
		it.Content = append(it.Content, inputPart{Type: "input_image", Detail: "auto"})
	}
	for _, a := range u.InputArtifacts {
		it.Content = append(it.Content, inputPart{Type: "input_file", Filename: a.FileName})
	}
	return []inputItem{it}, nil
}
