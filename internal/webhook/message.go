package webhook

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// message is what is sent: ids, and where the rest can be read by whoever may.
type message struct {
	Type      agent.WebhookEvent `json:"type"`
	Timestamp time.Time          `json:"timestamp"`
	Data      data               `json:"data"`
}

type data struct {
	SessionID    agent.SessionID `json:"sessionId,omitempty"`
	TurnID       agent.TurnID    `json:"turnId,omitempty"`
	Mode         agent.ModeKey   `json:"mode,omitempty"`
	PreviousMode agent.ModeKey   `json:"previousMode,omitempty"`
	Actor        agent.Actor     `json:"actor,omitempty"`
	State        agent.TurnState `json:"state,omitempty"`
	Code         agent.Kind      `json:"code,omitempty"`
	// Path is of the turn, or of the session, at the server.
	Path string `json:"path,omitempty"`
}

// bodyOf renders a delivery. It is the same at every attempt.
func bodyOf(d agent.WebhookDelivery) ([]byte, error) {
	m := message{Type: d.Event, Timestamp: d.At.UTC(), Data: data{
		SessionID: d.Session, TurnID: d.Turn, Mode: d.Mode, PreviousMode: d.PreviousMode, Actor: d.Actor, State: d.State, Code: d.Code,
	}}
	if d.Session != "" {
		m.Data.Path = "/v1/sessions/" + url.PathEscape(string(d.Session))
		if d.Turn != "" {
			m.Data.Path += "/turns/" + url.PathEscape(string(d.Turn))
		}
	}
	return json.Marshal(m)
}
