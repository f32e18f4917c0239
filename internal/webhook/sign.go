package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// secretPrefix begins a secret as people see it.
const secretPrefix = "whsec_"

// newSecret returns a secret of its own.
func newSecret() agent.WebhookSecret {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// shown is the secret as it is given to whoever created the webhook.
func shown(s agent.WebhookSecret) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(s)
}

// signature is the webhook-signature of a message: one for each secret that is good at
// this time, so that a receiver may change over when it likes.
func signature(w agent.Webhook, id agent.MessageID, at time.Time, body []byte) string {
	secrets := []agent.WebhookSecret{w.Secret}
	if len(w.Previous) > 0 && at.Before(w.PreviousUntil) {
		secrets = append(secrets, w.Previous)
	}
	var signatures []string
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		_, _ = fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
		_, _ = mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
