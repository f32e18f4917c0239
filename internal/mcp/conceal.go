package mcp

import (
	"os"
	"strings"

	"github.com/aptixhq/aptix/internal/secret"
)

// concealed masks in a text of the server what it was sent in headers: a server that
// repeats it would put it before the model and into the journal.
func (c ServerConfig) concealed(text string) string {
	for _, value := range c.Headers {
		// Of "Bearer TOKEN" the token alone, too.
		token := value.Reveal()
		token = token[strings.LastIndexByte(token, ' ')+1:]
		text = secret.Conceal(text, value, secret.New(token))
	}
	return text
}

// concealedForLog masks, besides, the values of the variables that a local server was
// given. They may be secrets and may be paths; a log can do without either, a result
// cannot do without paths.
func (c ServerConfig) concealedForLog(text string) string {
	for _, name := range c.Env {
		text = secret.Conceal(text, secret.New(os.Getenv(name)))
	}
	return c.concealed(text)
}
