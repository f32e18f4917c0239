package bus

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aptixhq/aptix/internal/secret"
)

// Files are what NATS servers ask for besides an address. Each may be empty.
type Files struct {
	// Credentials is a .creds file: the user's token and key.
	Credentials string
	// RootCAs is the certificate that the servers' are signed with, where the system does
	// not know it.
	RootCAs string
	// Certificate and Key are this node's own.
	Certificate, Key string
}

// A server that is gone is noticed within three pings, or at the next write. Another try
// begins after reconnectWait and up to reconnectJitter more, so that nodes which have lost
// the same server do not all come at once.
const (
	dialTime        = 2 * time.Second
	writeTime       = 2 * time.Second
	pingEvery       = 5 * time.Second
	pingsUnanswered = 2
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
)

// connect returns a connection, which may not be one yet: it is made, and made again,
// for ever.
func (b *Bus) connect() (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("aptix " + b.node),
		// What a node says is for the others. And without another one, it is told at once that
		// there is nobody to ask.
		nats.NoEcho(),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.Timeout(dialTime), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsUnanswered),
		nats.FlusherTimeout(writeTime), nats.ReconnectOnFlusherError(),
		// What is said while nobody listens is not said later: it would be old by then.
		nats.ReconnectBufSize(-1),
		nats.ConnectHandler(func(n *nats.Conn) { b.Log.Info("connected to NATS", "server", n.ConnectedAddr()) }),
		nats.ReconnectHandler(func(n *nats.Conn) { b.Log.Info("connected to NATS again", "server", n.ConnectedAddr()) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.Log.Warn("lost NATS; until it is back, turns of other nodes are followed with a delay", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.troubles.note(err) }),
	}
	files, err := b.Files.options()
	if err != nil {
		return nil, err
	}
	n, err := nats.Connect(b.Servers.Reveal(), append(options, files...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if !n.IsConnected() {
		b.Log.Warn("NATS does not answer yet; until it does, turns of other nodes are followed with a delay")
	}
	return n, nil
}

func (f Files) options() (out []nats.Option, err error) {
	for _, name := range []string{f.Credentials, f.RootCAs, f.Certificate, f.Key} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
	}
	if (f.Certificate == "") != (f.Key == "") {
		return nil, errors.New("connect to NATS: a certificate and its key belong together; give both files or none")
	}
	if f.Credentials != "" {
		out = append(out, nats.UserCredentials(f.Credentials))
	}
	if f.RootCAs != "" {
		out = append(out, nats.RootCAs(f.RootCAs))
	}
	if f.Certificate != "" {
		out = append(out, nats.ClientCert(f.Certificate, f.Key))
	}
	return out, nil
}

// checkServers says what is wrong with the addresses, without the passwords in them.
func checkServers(addresses secret.Text) error {
	servers := addresses.Reveal()
	if strings.TrimSpace(servers) == "" {
		return errors.New("the addresses of the NATS servers: want at least one, such as nats://127.0.0.1:4222")
	}
	for i, server := range strings.Split(servers, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("address %d of the NATS servers: want nats://HOST:PORT, or tls:// and so on", i+1)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return fmt.Errorf("address %d of the NATS servers: %s is unknown; want nats, tls, ws or wss", i+1, u.Scheme)
		}
	}
	return nil
}
