package client

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	webhookKey    = []byte("0123456789abcdef0123456789abcdef")
	webhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)
)

// signed are the headers of a message as the library of Standard Webhooks makes them.
func signed(t testing.TB, id string, at time.Time, body []byte) http.Header {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := w.Sign(id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	h.Set("webhook-signature", signature)
	return h
}

func TestVerifyWebhook(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	body := []byte(`{"type":"turn.completed","data":{}}`)
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		change func(http.Header)
		secret string
		body   string
		late   time.Duration
		ok     bool
	}{
		"as it was sent":          {ok: true},
		"nearly too old":          {late: 5 * time.Minute, ok: true},
		"nearly too early":        {late: -5 * time.Minute, ok: true},
		"too old":                 {late: 5*time.Minute + time.Second},
		"too early":               {late: -5*time.Minute - time.Second},
		"among others":            {ok: true, change: func(h http.Header) { h.Set("webhook-signature", "v1a,x v1,AAAA "+h.Get("webhook-signature")+" v2,y") }},
		"a secret without a name": {ok: true, secret: strings.TrimPrefix(webhookSecret, "whsec_")},
		"another secret":          {secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("another"))},
		"no secret":               {secret: "whsec_"},
		"not a secret":            {secret: "whsec_!"},
		"another body":            {body: `{"type":"turn.failed","data":{}}`},
		"another id":              {change: set("webhook-id", "msg_2")},
		"no id":                   {change: set("webhook-id", "")},
		"another time":            {change: set("webhook-timestamp", "1800000001")},
		"a time in other words":   {change: set("webhook-timestamp", "+1800000000")},
		"no time":                 {change: set("webhook-timestamp", "")},
		"a huge time":             {change: set("webhook-timestamp", "9223372036854775807")},
		"no signature":            {change: set("webhook-signature", "")},
		"another version": {change: func(h http.Header) {
			h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v2,", 1))
		}},
		"half a signature": {change: func(h http.Header) { h.Set("webhook-signature", h.Get("webhook-signature")[:20]) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := signed(t, "msg_1", now, body)
			if tt.change != nil {
				tt.change(h)
			}
			secret, got := tt.secret, body
			if secret == "" {
				secret = webhookSecret
			}
			if tt.body != "" {
				got = []byte(tt.body)
			}
			err := verifyWebhook(secret, h, got, now.Add(tt.late))
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrWebhookSignature) {
				t.Errorf("got %v, want it taken: %t", err, tt.ok)
			}
		})
	}
}

// What the library takes we take, and what it refuses we refuse.
func FuzzVerifyWebhook(f *testing.F) {
	now := time.Now()
	good := signed(f, "msg_1", now, []byte("{}"))
	f.Add("msg_1", good.Get("webhook-timestamp"), good.Get("webhook-signature"), []byte("{}"))
	f.Add("", "0", "v1,", []byte(nil))
	f.Add("a.b", " 1", "v1,AAAA v1,AA==", []byte("x"))
	theirs, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		h := http.Header{}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", stamp)
		h.Set("webhook-signature", signature)
		if ours := VerifyWebhook(webhookSecret, h, body); ours == nil && theirs.Verify(body, h) != nil {
			t.Errorf("taken, and the library does not: id %q, time %q, signature %q", id, stamp, signature)
		}
	})
}
