package config

import (
	"cmp"
	"os"

	"github.com/aptixhq/aptix/internal/secret"
)

// Client says which server the commands that talk to one use.
type Client struct {
	// URL is the address of the server; empty means the usual one.
	URL    string
	APIKey secret.Text
}

// LoadClient reads the address of the server and the key for it: a flag over
// environment. No file is read: a configuration file that happens to lie in the working
// directory, in somebody else's project say, must not be able to send the key elsewhere.
func LoadClient(flagURL string, lookupEnv func(string) (string, bool)) (Client, error) {
	env := environment{lookup: lookupEnv}
	if env.lookup == nil {
		env.lookup = os.LookupEnv
	}
	key, _, err := env.value("APTIX_API_KEY", true)
	if err != nil {
		return Client{}, Problems{err.Error()}
	}
	return Client{URL: cmp.Or(flagURL, env.get("APTIX_URL")), APIKey: secret.New(key)}, nil
}
