// Package acp makes a server the agent of an editor: it speaks the Agent Client Protocol
// with the editor, over stdio as a rule, and the public API with the server. A session of
// the editor is a session of the server, a prompt is a turn, and the modes are the
// server's, as session modes and as the configuration option of category "mode".
//
// The client tools are those of package localtools, in the folder that the editor has
// opened. Whatever they change, and whatever the server waits for its user to approve, the
// editor asks about. MCP servers that the editor names are not used: those are configured
// where the server is.
//
// Nothing of a session is kept here that matters. When the editor dies, the session can be
// resumed, and a turn that waited for the editor's tools is cancelled then.
package acp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"

	acp "github.com/coder/acp-go-sdk"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
)

// Config holds the parts of an agent. All of them are required.
type Config struct {
	Client  *client.Client
	Version string
	Log     *slog.Logger
}

// Serve is the agent of one editor, until that closes the connection or ctx ends.
func Serve(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	a := &agent{Config: cfg, sessions: map[acp.SessionId]*session{}, connected: make(chan struct{})}
	a.editor = acp.NewAgentSideConnection(a, out, in)
	a.editor.SetLogger(cfg.Log)
	close(a.connected)
	var err error
	select {
	case <-a.editor.Done():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, a.close())
}

// agent implements acp.Agent.
type agent struct {
	Config
	editor    *acp.AgentSideConnection
	connected chan struct{} // closed when editor is set; the first request may be quicker

	mu       sync.Mutex
	sessions map[acp.SessionId]*session
}

func (a *agent) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, s := range a.sessions {
		errs = append(errs, s.tools.Close())
	}
	return errors.Join(errs...)
}

// Initialize says what the agent can do.
func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "aptix", Title: acp.Ptr("Aptix"), Version: a.Version},
		AgentCapabilities: acp.AgentCapabilities{
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{}, Close: &acp.SessionCloseCapabilities{},
			},
		},
	}, nil
}

// Authenticate does nothing: the key of the server is in the agent's environment.
func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

// NewSession opens a session of the server for a folder.
func (a *agent) NewSession(ctx context.Context, r acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	a.leaveOut(r.McpServers)
	tools, err := open(r.Cwd)
	if err != nil {
		return acp.NewSessionResponse{}, err
	}
	s, err := a.Client.CreateSession(ctx, client.NewSession{SessionID: client.NewID(), Tools: definitions(tools)})
	if err != nil {
		return acp.NewSessionResponse{}, errors.Join(told(err), tools.Close())
	}
	taken, err := a.take(ctx, s, tools)
	if err != nil {
		return acp.NewSessionResponse{}, err
	}
	if s.WelcomeMessage != "" {
		// After the answer, since the editor does not know the session before it.
		go taken.say(context.WithoutCancel(ctx), s.WelcomeMessage)
	}
	return acp.NewSessionResponse{SessionId: taken.id, Modes: taken.modeState(), ConfigOptions: taken.options()}, nil
}

// ResumeSession takes a session up again. What was said before is not shown again.
func (a *agent) ResumeSession(ctx context.Context, r acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	a.leaveOut(r.McpServers)
	tools, err := open(r.Cwd)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	s, err := a.Client.SetTools(ctx, string(r.SessionId), definitions(tools))
	if err != nil {
		return acp.ResumeSessionResponse{}, errors.Join(told(err), tools.Close())
	}
	taken, err := a.take(ctx, s, tools)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	return acp.ResumeSessionResponse{Modes: taken.modeState(), ConfigOptions: taken.options()}, nil
}

// ListSessions lists the sessions of the server, a page at a time. They have no folder
// there: they are listed under the one that was asked for.
func (a *agent) ListSessions(ctx context.Context, r acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	page, folder := client.Page{Limit: 50}, "/"
	if r.Cursor != nil {
		page.Cursor = *r.Cursor
	}
	if r.Cwd != nil {
		folder = *r.Cwd
	}
	l, err := a.Client.Sessions(ctx, page)
	if err != nil {
		return acp.ListSessionsResponse{}, told(err)
	}
	out := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	for _, s := range l.Data {
		out.Sessions = append(out.Sessions, acp.SessionInfo{
			SessionId: acp.SessionId(s.SessionID), Cwd: folder,
			Title: acp.Ptr(s.Mode + " · " + s.SessionID), UpdatedAt: acp.Ptr(s.UpdatedAt.Format("2006-01-02T15:04:05Z07:00")),
		})
	}
	if l.HasMore {
		out.NextCursor = &l.NextCursor
	}
	return out, nil
}

// CloseSession lets go of a session; the server keeps it.
func (a *agent) CloseSession(ctx context.Context, r acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	a.mu.Lock()
	s := a.sessions[r.SessionId]
	delete(a.sessions, r.SessionId)
	a.mu.Unlock()
	if s == nil {
		return acp.CloseSessionResponse{}, unknown(r.SessionId)
	}
	s.cancel(ctx)
	return acp.CloseSessionResponse{}, s.tools.Close()
}

// SetSessionMode changes the mode as the user, who chose it in the editor.
func (a *agent) SetSessionMode(ctx context.Context, r acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	s, err := a.session(r.SessionId)
	if err != nil {
		return acp.SetSessionModeResponse{}, err
	}
	return acp.SetSessionModeResponse{}, s.setMode(ctx, string(r.ModeId))
}

// SetSessionConfigOption changes the mode in its newer form.
func (a *agent) SetSessionConfigOption(ctx context.Context, r acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	if r.ValueId == nil || r.ValueId.ConfigId != modeOption {
		return acp.SetSessionConfigOptionResponse{}, acp.NewInvalidParams(map[string]any{"error": "the one option is " + string(modeOption)})
	}
	s, err := a.session(r.ValueId.SessionId)
	if err != nil {
		return acp.SetSessionConfigOptionResponse{}, err
	}
	if err := s.setMode(ctx, string(r.ValueId.Value)); err != nil {
		return acp.SetSessionConfigOptionResponse{}, err
	}
	return acp.SetSessionConfigOptionResponse{ConfigOptions: s.options()}, nil
}

// Cancel ends the turn that runs; its prompt is answered as cancelled.
func (a *agent) Cancel(ctx context.Context, r acp.CancelNotification) error {
	s, err := a.session(r.SessionId)
	if err != nil {
		return err
	}
	s.cancel(ctx)
	return nil
}

// Prompt runs a turn to its end.
func (a *agent) Prompt(ctx context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	s, err := a.session(r.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	turn, err := s.turn(r.Prompt)
	if err != nil {
		return acp.PromptResponse{}, acp.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	stop, err := s.run(ctx, turn)
	return acp.PromptResponse{StopReason: stop}, err
}

func (a *agent) session(id acp.SessionId) (*session, error) {
	<-a.connected
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, unknown(id)
}

// take makes a session of the server one of this editor.
func (a *agent) take(ctx context.Context, from *client.Session, tools *localtools.Tools) (*session, error) {
	<-a.connected
	modes, err := a.Client.Modes(ctx)
	if err != nil {
		return nil, errors.Join(told(err), tools.Close())
	}
	s := &session{agent: a, id: acp.SessionId(from.SessionID), tools: tools, modes: modes, mode: from.Mode}
	a.mu.Lock()
	old := a.sessions[s.id]
	a.sessions[s.id] = s
	a.mu.Unlock()
	if old != nil {
		err = old.tools.Close()
	}
	return s, err
}

// leaveOut says that MCP servers of the editor are not used.
func (a *agent) leaveOut(servers []acp.McpServer) {
	if len(servers) > 0 {
		a.Log.Warn("MCP servers of the editor are not used; configure them at the server, under mcp", "servers", len(servers))
	}
}

// open opens the folder that the tools stay in.
func open(dir string) (*localtools.Tools, error) {
	if !filepath.IsAbs(dir) {
		return nil, acp.NewInvalidParams(map[string]any{"error": "cwd must be an absolute path"})
	}
	tools, err := localtools.Open(dir, localtools.Limits{})
	if err != nil {
		return nil, acp.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	return tools, nil
}

func definitions(tools *localtools.Tools) []client.Tool {
	var out []client.Tool
	for _, d := range tools.Definitions() {
		out = append(out, client.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return out
}

func unknown(id acp.SessionId) error {
	return acp.NewInvalidParams(map[string]any{"error": "there is no session " + string(id) + " here; make or resume it first"})
}

// told is an error of the server as the editor is told of it.
func told(err error) error {
	if errors.Is(err, client.ErrUnreachable) {
		return acp.NewInternalError(map[string]any{"error": err.Error() + "; start a server with 'aptix serve', or name one with --url or APTIX_URL"})
	}
	return acp.NewInternalError(map[string]any{"error": err.Error()})
}
