package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Contexts are the agent and conversation contexts that sessions choose from. They are
// fixed while the server runs.
type Contexts struct {
	agents []AgentContext
	first  string // the agent context of sessions that choose none
	// endpoint is what the provider of all of them can do.
	endpoint Capabilities
}

// Contexts returns the contexts with everything that was left to defaults filled in.
func (c Config) Contexts() *Contexts {
	out := &Contexts{agents: slices.Clone(c.AgentContexts), first: c.DefaultAgentContext, endpoint: c.Capabilities()}
	for i := range out.agents {
		a := &out.agents[i]
		out.first = cmp.Or(out.first, a.ID)
		a.ConversationContexts = slices.Clone(a.ConversationContexts)
		for j := range a.ConversationContexts {
			cc := &a.ConversationContexts[j]
			a.DefaultConversationContext = cmp.Or(a.DefaultConversationContext, cc.ID)
			cc.Model = cmp.Or(cc.Model, c.Model)
			if cc.EncryptedReasoning == nil {
				cc.EncryptedReasoning = &out.endpoint.Reasoning
			}
			cc.OmitTemperature = cc.OmitTemperature || !out.endpoint.Temperature
			cc.System = cmp.Or(strings.TrimSpace(cc.System), strings.TrimSpace(bootPrompt))
		}
	}
	return out
}

// List names every context, in the order of the configuration.
func (c *Contexts) List() []agent.ContextName {
	var out []agent.ContextName
	for _, a := range c.agents {
		for _, cc := range a.ConversationContexts {
			first := a.ID == c.first
			out = append(out, agent.ContextName{Agent: a.ID, Conversation: cc.ID,
				DefaultAgent: first, Default: first && cc.ID == a.DefaultConversationContext})
		}
	}
	return out
}

// Resolve returns the context that a session chooses, and the ids under which it is
// pinned; an empty id chooses the default. An unknown one is an *agent.Error of kind
// KindUnknownContext that names the valid ones (decision 4).
func (c *Contexts) Resolve(agentContext, conversationContext string) (agentID, conversationID string, _ agent.ConversationContext, err error) {
	agentID = cmp.Or(agentContext, c.first)
	i := slices.IndexFunc(c.agents, func(a AgentContext) bool { return a.ID == agentID })
	if i < 0 {
		return "", "", agent.ConversationContext{}, agent.Errorf(agent.KindUnknownContext,
			"There is no agent context %q. Valid agent contexts: %s.", agentID, strings.Join(ids(c.agents, func(a AgentContext) string { return a.ID }), ", "))
	}
	a := c.agents[i]
	conversationID = cmp.Or(conversationContext, a.DefaultConversationContext)
	found, ok := c.conversation(a, conversationID)
	if !ok {
		return "", "", agent.ConversationContext{}, agent.Errorf(agent.KindUnknownContext,
			"There is no conversation context %q in the agent context %q. Valid conversation contexts: %s.", conversationID, agentID,
			strings.Join(ids(a.ConversationContexts, func(c ConversationContext) string { return c.ID }), ", "))
	}
	return agentID, conversationID, found, nil
}

// Conversation returns a pinned context again; ok is false when configuration no longer
// has it.
func (c *Contexts) Conversation(agentContext, conversationContext string) (_ agent.ConversationContext, ok bool) {
	for _, a := range c.agents {
		if a.ID == agentContext {
			return c.conversation(a, conversationContext)
		}
	}
	return agent.ConversationContext{}, false
}

func (c *Contexts) conversation(a AgentContext, id string) (agent.ConversationContext, bool) {
	for _, cc := range a.ConversationContexts {
		if cc.ID == id {
			return agent.ConversationContext{
				ID: cc.ID, Model: cc.Model, System: cc.System, Temperature: cc.Temperature, OmitTemperature: cc.OmitTemperature,
				EncryptedReasoning: cc.EncryptedReasoning != nil && *cc.EncryptedReasoning,
				OmitStore:          !c.endpoint.Store, OmitToolChoice: !c.endpoint.ToolChoice,
				AllowedTools: c.endpoint.AllowedTools,
				NoImages:     !c.endpoint.Images, NoFiles: !c.endpoint.Files,
			}, true
		}
	}
	return agent.ConversationContext{}, false
}

func ids[T any](list []T, id func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = id(v)
	}
	return out
}
