package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/secret"
)

// StatusError lies behind the fault of an answer with a status other than 2xx, for
// those who have to tell the refusals apart: a forgotten previous_response_id looks
// different with every provider (decision 29).
type StatusError struct {
	Status int
	// Code, Param and Message are the provider's own, empty when it gave none.
	Code    string
	Param   string
	Message string
}

// Error renders the status and the code.
func (e *StatusError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d, code %s", e.Status, e.Code)
}

// providerError is the error object of the API. Providers differ in how far they
// keep to it, so its members may be of any type.
type providerError struct {
	Message text `json:"message"`
	Code    text `json:"code"`
	Param   text `json:"param"`
}

// text is a JSON string, or empty when another type stands in its place.
type text string

// UnmarshalJSON reads a string and forgives everything else.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = text(s)
	}
	return nil
}

// broken says why an exchange broke off: the caller's own wish first, then our
// bounds, then what happened underneath. The caller's wish stays what it is, so that
// a cancelled turn is not taken for a failed provider.
func (c *Client) broken(caller context.Context, w *watch, what string, err error) error {
	if caller.Err() != nil {
		return fmt.Errorf("ask the model: %w", caller.Err())
	}
	cause := err
	if w.ctx.Err() != nil {
		cause = context.Cause(w.ctx)
	}
	switch {
	case errors.Is(cause, errIdle):
		return agent.Errorf(agent.KindProviderTimeout, "The provider sent nothing for %s; try again later.", c.idle).Because(err)
	case errors.Is(cause, errTotal):
		return agent.Errorf(agent.KindProviderTimeout, "The provider did not finish within %s; try again later.", c.total).Because(err)
	case errors.Is(cause, errTooLong), errors.Is(cause, errEventTooLarge):
		return agent.Errorf(agent.KindProviderFailed, "The provider's answer is larger than this server takes.").Because(err)
	}
	return agent.Errorf(agent.KindProviderFailed, "%s", what).Because(err)
}

const (
	unreachable = "The provider could not be reached; try again later."
	cut         = "The provider cut the stream before its answer was complete; try again."
	malformed   = "The provider sent an answer that cannot be read; try again."
)

// refused turns an answer with a status other than 2xx into a fault. Of the body
// only the provider's own message is passed on.
func (c *Client) refused(resp *http.Response, body io.Reader) error {
	const enough = 64 << 10
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message text            `json:"message"`
	}
	// A body that cannot be read or is no JSON, such as a proxy's page, says nothing.
	data, err := io.ReadAll(io.LimitReader(body, enough))
	if kind := mediaType(resp); err == nil && (kind == typeJSON || strings.HasSuffix(kind, "+json")) {
		_ = json.Unmarshal(data, &e)
	}
	pe := parseError(e.Error)
	if pe.Message == "" {
		pe.Message = e.Message
	}
	status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	fault := agent.Errorf(agent.KindProviderFailed, "The provider answered %s%s", status, c.said(pe))
	if passing(resp.StatusCode) {
		fault.RetryAfter = retryAfter(resp.Header, time.Now())
	}
	return fault.Because(&StatusError{Status: resp.StatusCode, Code: c.clean(string(pe.Code)), Param: c.clean(string(pe.Param)), Message: c.clean(string(pe.Message))})
}

// parseError reads an error object, or the bare string that some send instead.
func parseError(raw json.RawMessage) providerError {
	var e providerError
	if err := json.Unmarshal(raw, &e); err != nil {
		var s text
		_ = json.Unmarshal(raw, &s)
		return providerError{Message: s}
	}
	return e
}

// said appends the provider's own words to a message.
func (c *Client) said(e providerError) string {
	text, code := c.clean(string(e.Message)), c.clean(string(e.Code))
	switch {
	case text == "" && code == "":
		return "."
	case text == "":
		return " (" + code + ")."
	case code == "":
		return ": " + text
	default:
		return " (" + code + "): " + text
	}
}

// clean makes the provider's words fit to be shown: one line of at most 500
// characters, without our key and without the name of the host that we called.
func (c *Client) clean(s string) string {
	s = secret.Conceal(s, c.key)
	for _, host := range c.hosts {
		s = strings.ReplaceAll(s, host, "…")
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, valid(s))
	const most = 500
	if r := []rune(strings.TrimSpace(s)); len(r) > most {
		return string(r[:most])
	}
	return strings.TrimSpace(s)
}

// retryAfter reads how long the provider asks to wait: the milliseconds of OpenAI's
// own header, seconds, or a date. What is no sane time is no wish at all, and what is
// beyond all numbers is a long one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	for _, form := range []struct {
		value string
		unit  time.Duration
	}{
		{h.Get("Retry-After-Ms"), time.Millisecond},
		{h.Get("Retry-After"), time.Second},
	} {
		n, err := strconv.ParseFloat(form.value, 64)
		if (err == nil || errors.Is(err, strconv.ErrRange)) && n > 0 {
			return time.Duration(min(n*float64(form.unit), float64(most)))
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
