package contract

import (
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
)

// The bounds of a webhook's texts.
const (
	maxWebhookURL         = 2048
	maxWebhookDescription = 1000
)

// CreateWebhook is the body of POST /v1/webhooks.
type CreateWebhook struct {
	URL         string               `json:"url"`
	Events      []agent.WebhookEvent `json:"events"`
	Description string               `json:"description,omitempty"`
}

// DecodeCreateWebhook reads the body of POST /v1/webhooks. Where the url may lead is seen
// where the policy is.
func DecodeCreateWebhook(body []byte, lim Limits) (CreateWebhook, error) {
	return decode(body, lim, func(o *object) CreateWebhook {
		w := CreateWebhook{
			URL:         readBounded(o.need("url", ruleRequired), maxWebhookURL),
			Events:      readWebhookEvents(o.need("events", ruleRequired)),
			Description: readBounded(o.get("description"), maxWebhookDescription),
		}
		o.done("a webhook")
		return w
	})
}

func readBounded(v value, most int) string {
	text := v.str(ruleType)
	if len(text) > most {
		v.fault(ruleLimits, "has more than %d bytes.", most)
	}
	return text
}

// readWebhookEvents reads a set of events: each of them once, in the order in which they
// are listed everywhere.
func readWebhookEvents(v value) []agent.WebhookEvent {
	var known []string
	for _, e := range agent.WebhookEvents() {
		known = append(known, string(e))
	}
	asked := map[agent.WebhookEvent]bool{}
	for _, item := range v.atMost(len(known), v.list(ruleType)) {
		asked[agent.WebhookEvent(item.oneOf(ruleType, known...))] = true
	}
	if v.present && len(asked) == 0 {
		v.fault(ruleRequired, "must hold at least one event.")
	}
	return slices.DeleteFunc(agent.WebhookEvents(), func(e agent.WebhookEvent) bool { return !asked[e] })
}
