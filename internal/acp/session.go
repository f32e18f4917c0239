package acp

import (
	"context"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
)

// modeOption is the configuration option that is the mode.
const modeOption acp.SessionConfigId = "mode"

// session is one session of the editor.
type session struct {
	agent *agent
	id    acp.SessionId
	tools *localtools.Tools
	modes []client.Mode

	mu     sync.Mutex
	mode   string
	active string // the turn that runs, "" when none does
}

// current returns the mode, which the last answer carried (AGN-011 §3.4).
func (s *session) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// modeState is the mode and those to choose from, in the protocol's older form.
func (s *session) modeState() *acp.SessionModeState {
	state := &acp.SessionModeState{CurrentModeId: acp.SessionModeId(s.current())}
	for _, m := range s.modes {
		state.AvailableModes = append(state.AvailableModes, acp.SessionMode{
			Id: acp.SessionModeId(m.Key), Name: m.DisplayName, Description: acp.Ptr(m.WhenToUse),
		})
	}
	return state
}

// options is the same in the newer form.
func (s *session) options() []acp.SessionConfigOption {
	var values acp.SessionConfigSelectOptionsUngrouped
	for _, m := range s.modes {
		values = append(values, acp.SessionConfigSelectOption{
			Value: acp.SessionConfigValueId(m.Key), Name: m.DisplayName, Description: acp.Ptr(m.WhenToUse),
		})
	}
	return []acp.SessionConfigOption{{Select: &acp.SessionConfigOptionSelect{
		Type: "select", Id: modeOption, Name: "Mode", Category: acp.Ptr(acp.SessionConfigOptionCategoryMode),
		CurrentValue: acp.SessionConfigValueId(s.current()), Options: acp.SessionConfigSelectOptions{Ungrouped: &values},
	}}}
}

// setMode changes the mode at the server.
func (s *session) setMode(ctx context.Context, mode string) error {
	if mode == s.current() {
		return nil
	}
	changed, err := s.agent.Client.SetMode(ctx, string(s.id), mode, "The user chose it in the editor.")
	if err != nil {
		return told(err)
	}
	s.moved(ctx, changed.Mode)
	return nil
}

// moved takes a mode over and tells the editor, in both forms, when it is another one.
func (s *session) moved(ctx context.Context, mode string) {
	s.mu.Lock()
	same := s.mode == mode
	s.mode = mode
	s.mu.Unlock()
	if same {
		return
	}
	s.update(ctx, acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: acp.SessionModeId(mode)}})
	s.update(ctx, acp.SessionUpdate{ConfigOptionUpdate: &acp.SessionConfigOptionUpdate{ConfigOptions: s.options()}})
}

// update tells the editor something. An editor that is gone ends the connection anyway.
func (s *session) update(ctx context.Context, u acp.SessionUpdate) {
	if err := s.agent.editor.SessionUpdate(ctx, acp.SessionNotification{SessionId: s.id, Update: u}); err != nil {
		s.agent.Log.Debug("tell the editor", "error", err)
	}
}

// say shows a text as the agent's.
func (s *session) say(ctx context.Context, text string) {
	s.update(ctx, acp.UpdateAgentMessageText(text))
}

// cancelTime bounds the request that ends a turn.
const cancelTime = 5 * time.Second

// cancel ends the turn that runs, if one does.
func (s *session) cancel(ctx context.Context) {
	s.mu.Lock()
	turn := s.active
	s.mu.Unlock()
	if turn != "" {
		s.end(ctx, turn)
	}
}

// end asks the server to end a turn.
func (s *session) end(ctx context.Context, turn string) {
	// What it belongs to may have ended just now; this call is still wanted.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if err := s.agent.Client.Cancel(ctx, string(s.id), turn); err != nil {
		s.agent.Log.Warn("cancel a turn", "turn", turn, "error", err)
	}
}
