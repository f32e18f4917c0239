// Package aptix is an Aptix server inside a program of yours, with tools that are Go
// functions:
//
//	server, err := aptix.New(ctx, aptix.Config{
//		Model: aptix.Model{Name: "gpt-5-mini", APIKey: aptix.Secret(os.Getenv("OPENAI_API_KEY"))},
//		Modes: os.DirFS("modes"),
//		Tools: []aptix.Tool{aptix.NewTool(aptix.ToolInfo{Name: "order_status", Description: "…"}, orderStatus)},
//	})
//	…
//	defer server.Close(ctx)
//	err = server.Serve(listener)
//
// It is the server that `aptix serve` runs, put together by the same code: sessions, modes,
// the journal, recovery, the API, the console, and every check of who may ask. The program
// talks to it as others do, with package client; `aptix chat` and the rest of the command
// line work with it, too.
//
// # Who is let in
//
// A server is for this machine only until its first API key is made ('aptix keys create',
// or POST /v1/keys). Until then it refuses connections that came in on another address than a
// loopback one, whoever listens. It answers to loopback names and to those in Config.Hosts,
// and to no request of a page of another origin. Its console asks for the ConsoleToken
// meanwhile, which the program tells whoever is to see it.
//
// # Where the turns live
//
// Turns belong to the server and survive the program: what was under way when it ended goes
// on when New opens the same data again. One program at a time may have a data file open; a
// PostgreSQL database is shared by as many as you like.
package aptix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/server"
)

// Config says how a server is to run. Zero fields mean the documented default; the zero
// Config is a server with the offline model, the built-in modes and its data in
// ./aptix-data.
type Config struct {
	// Data is the folder of the data file, ./aptix-data when empty.
	Data string
	// Database is another path for the data file, or postgres://USER:PASSWORD@HOST:PORT/NAME
	// for a database that several programs share.
	Database Secret
	// Model answers; the zero Model is an offline script, unless File or LookupEnv say
	// otherwise.
	Model Model
	// Modes has one YAML file per mode at its root, such as os.DirFS("modes") or an
	// embed.FS below it; nil means the built-in modes (docs/modes.md).
	Modes fs.FS
	// Tools are what models may call in the modes that have them.
	Tools []Tool
	// Hosts are names under which the server answers beside localhost, without port.
	Hosts []string
	// File is a configuration file with whatever has no field here: budgets, limits, MCP
	// servers, retention (README.md). No file is read when it is empty.
	File string
	// LookupEnv is os.LookupEnv where the environment of `aptix serve`, OPENAI_API_KEY and
	// APTIX_…, shall count; when nil it does not. It goes over File, and the fields above go
	// over both.
	LookupEnv func(string) (string, bool)
	// Log is where the server writes what operators need to know; slog.Default() when nil.
	// What users, models and tools say is not in it.
	Log *slog.Logger
}

// Model says which model answers, and where.
type Model struct {
	// Name is the model's, the default of `aptix serve` when empty.
	Name string
	// BaseURL is the root of a Responses API with its /v1, OpenAI's when empty.
	BaseURL string
	// APIKey is sent there.
	APIKey Secret
}

// Server is a server that runs. Build it with New, and close it.
type Server struct {
	node *node.Node
	door *door
	web  *http.Server

	closing sync.Once
	closed  error // what Close returned
}

// New starts a server: it opens the data, checks modes and tools, and takes up the turns
// that were under way when the data was last closed. Whatever is wrong with the Config is
// in the error, all at once. The context bounds the start and nothing after it.
func New(ctx context.Context, c Config) (*Server, error) {
	made, err := c.node()
	if err != nil {
		return nil, fmt.Errorf("aptix: %w", err)
	}
	n, err := node.New(ctx, made)
	if err != nil {
		return nil, fmt.Errorf("aptix: %w", err)
	}
	if err := n.Start(ctx); err != nil {
		hurry, cancel := context.WithCancel(ctx)
		cancel()
		return nil, fmt.Errorf("aptix: %w", errors.Join(err, n.Drain(hurry), n.Close()))
	}
	s := &Server{node: n, door: newDoor(n.Handler()), web: n.HTTPServer("")}
	s.web.Handler = s.door
	return s, nil
}

// Handler returns the server for an http.Server of yours: API, console and documentation,
// with every check. Its paths begin at the root; other handlers may stand beside it for
// other paths. Give the http.Server a ReadHeaderTimeout, and no WriteTimeout: turns are
// long, and the handler bounds what it reads and writes step by step.
//
// After Close, and for whatever comes meanwhile, it answers 503.
func (s *Server) Handler() http.Handler { return s.door }

// Serve answers requests that come in on l until Close, and then returns nil. It closes l,
// and refuses one that other machines can reach while nobody has to authenticate. A
// listener that speaks TLS is made with tls.NewListener.
func (s *Server) Serve(l net.Listener) error {
	if err := s.mayServe(l); err != nil {
		return errors.Join(fmt.Errorf("aptix: %w", err), l.Close())
	}
	if err := s.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("aptix: serve: %w", err)
	}
	return nil
}

// lookTime bounds the question whether there are keys.
const lookTime = 10 * time.Second

func (s *Server) mayServe(l net.Listener) error {
	if _, network := l.Addr().(*net.TCPAddr); !network {
		return nil // who may open the file of a socket, its folder says
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	on, err := s.node.Authenticates(ctx)
	if err != nil {
		return err
	}
	return server.CheckListen(l.Addr().String(), on)
}

// ConsoleToken is what a browser shows to the console, as /?token=…, while the server has no
// API key; it lasts as long as the server. It is empty where no token is asked for.
func (s *Server) ConsoleToken() Secret { return Secret(s.node.ConsoleToken().Reveal()) }

// Close stops the server. It takes no new turns at once, and gives those that run until ctx
// ends to finish; the others go on when the data is opened again. Then it ends what is still
// being answered and closes the data. Another call changes nothing.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() {
		err := s.node.Drain(ctx)
		// Readers that still follow can take their streams up again.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = s.node.EndParked(closing)
		s.door.shut(closing)
		s.closed = errors.Join(err, s.web.Close(), s.node.Close())
	})
	return s.closed
}

// closeTime is how long requests may take to end once no turn runs any more.
const closeTime = 5 * time.Second
