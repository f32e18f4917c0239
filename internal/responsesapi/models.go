package responsesapi

import (
	"context"
	"encoding/json"

	"github.com/aptixhq/aptix/internal/agent"
)

// model is a configured context under the name by which clients choose it.
type model struct {
	agent.ContextName
	id string
	// asked tells that the client named it, so that it must be the session's.
	asked bool
}

// models lists the contexts: those of the default agent context by their own name, the
// others with their agent context before it.
func (d *Door) models() []model {
	var out []model
	for _, c := range d.contexts.List() {
		id := c.Agent + "/" + c.Conversation
		if c.DefaultAgent {
			id = c.Conversation
		}
		out = append(out, model{ContextName: c, id: id})
	}
	return out
}

// modelOf finds the model of a request. Without one it is the session's, and for a new
// session the default.
func (d *Door) modelOf(ctx context.Context, by agent.Caller, r request) (model, error) {
	all := d.models()
	if r.model != "" {
		for _, m := range all {
			if m.id == r.model || m.Agent+"/"+m.Conversation == r.model {
				m.asked = true
				return m, nil
			}
		}
		return model{}, errNoModel(r.model)
	}
	if r.conversation != "" {
		s, err := d.sessions.Get(ctx, by, r.conversation)
		if err != nil && agent.KindOf(err) != agent.KindNotFound {
			return model{}, err
		}
		for _, m := range all {
			if err == nil && m.Agent == s.AgentContext && m.Conversation == s.ConversationContext {
				return m, nil
			}
		}
	}
	for _, m := range all {
		if m.Default {
			return m, nil
		}
	}
	return model{}, refuse("model", codeMissing, "Missing required parameter: 'model'. GET /v1/models lists the ones there are.")
}

func errNoModel(id string) error {
	return &Error{param: "model", code: codeModelNotFound,
		err: agent.Errorf(agent.KindNotFound, "The model '%s' does not exist. GET /v1/models lists the ones there are.", clip(id, 80))}
}

// modelView is a model as it is listed. Contexts come from configuration and have no
// time of creation.
type modelView struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (m model) view() modelView { return modelView{ID: m.id, Object: "model", OwnedBy: "aptix"} }

// Models lists the configured contexts as models.
func (d *Door) Models() (json.RawMessage, error) {
	list := struct {
		Object string      `json:"object"`
		Data   []modelView `json:"data"`
	}{Object: "list", Data: []modelView{}}
	for _, m := range d.models() {
		list.Data = append(list.Data, m.view())
	}
	return json.Marshal(list)
}

// Model returns one of Models.
func (d *Door) Model(id string) (json.RawMessage, error) {
	for _, m := range d.models() {
		if m.id == id {
			return json.Marshal(m.view())
		}
	}
	return nil, errNoModel(id)
}
