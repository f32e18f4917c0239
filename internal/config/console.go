package config

import "fmt"

// ConsoleToken says what a browser has to show before it sees the console where nobody
// authenticates.
type ConsoleToken string

// The choices.
const (
	ConsoleTokenAsk ConsoleToken = "ask"
	// ConsoleTokenOff is for a server behind a proxy that asks by itself.
	ConsoleTokenOff ConsoleToken = "off"
)

// Console configures the web application.
type Console struct {
	Token ConsoleToken `koanf:"token"`
}

func (c Console) problems() Problems {
	switch c.Token {
	case ConsoleTokenAsk, ConsoleTokenOff:
		return nil
	}
	return Problems{fmt.Sprintf("console.token: %q is unknown; want %s or %s", c.Token, ConsoleTokenAsk, ConsoleTokenOff)}
}
