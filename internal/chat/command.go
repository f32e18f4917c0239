package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/aptixhq/aptix/client"
)

// command is one slash command.
type command struct {
	name, argument, help string
	run                  func(c *chat, ctx context.Context, argument string) error
}

// commands is the table of slash commands. An error that is not io.EOF is shown and the
// conversation goes on.
func commands() []command {
	return []command{
		{"/mode", "[KEY]", "show the mode, or change it", (*chat).modeCommand},
		{"/modes", "", "list the modes", (*chat).modesCommand},
		{"/tools", "", "list the tools of this mode and of this terminal", (*chat).toolsCommand},
		{"/branch", "[KEY]", "go on in a new session that remembers this one", (*chat).branchCommand},
		{"/history", "", "list the changes of the mode", (*chat).historyCommand},
		{"/session", "", "show this session", (*chat).sessionCommand},
		{"/requests", "[N]", "list the last turn's model requests, or show one", (*chat).requestsCommand},
		{"/help", "", "show this", (*chat).helpCommand},
		{"/quit", "", "leave; the session stays", func(*chat, context.Context, string) error { return io.EOF }},
	}
}

// command runs a slash command. Its error ends the conversation.
func (c *chat) command(ctx context.Context, line string) error {
	name, argument, _ := strings.Cut(line, " ")
	for _, cmd := range commands() {
		if cmd.name != name {
			continue
		}
		err := cmd.run(c, ctx, strings.TrimSpace(argument))
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			c.out.fail(err)
			return nil
		}
		return err
	}
	c.out.line("There is no command %s; /help lists them.", name)
	return nil
}

// complete finishes the name of a slash command, as far as it is the only one.
func complete(line string) (string, bool) {
	found := ""
	for _, cmd := range commands() {
		if !strings.HasPrefix(cmd.name, line) {
			continue
		}
		if found != "" {
			return "", false
		}
		found = cmd.name
		if cmd.argument != "" {
			found += " "
		}
	}
	return found, found != "" && line != ""
}

func (c *chat) helpCommand(context.Context, string) error {
	for _, cmd := range commands() {
		c.out.entry(19, "  %-16s %s", strings.TrimSpace(cmd.name+" "+cmd.argument), cmd.help)
	}
	c.out.line("A line that ends in \\ goes on in the next one; lines that are pasted together are one message.")
	return nil
}

func (c *chat) modeCommand(ctx context.Context, key string) error {
	if key == "" {
		m, err := c.Client.Mode(ctx, c.mode)
		if err != nil {
			return err
		}
		c.out.line("%s (%s): %s", m.Key, m.DisplayName, m.Description)
		return nil
	}
	before := c.mode
	s, err := c.Client.SetMode(ctx, c.session, key, "The user chose the mode in aptix chat.")
	if err != nil {
		return err
	}
	c.mode = s.Mode
	if before == s.Mode {
		c.out.line("The mode is %s already.", s.Mode)
		return nil
	}
	c.out.line("The mode is now %s; its tools come with the next turn.", s.Mode)
	c.welcome(s.WelcomeMessage)
	return nil
}

func (c *chat) modesCommand(ctx context.Context, _ string) error {
	modes, err := c.Client.Modes(ctx)
	if err != nil {
		return err
	}
	for _, m := range modes {
		mark := " "
		if m.Key == c.mode {
			mark = "*"
		}
		c.out.entry(23, "%s %-20s %s", mark, m.Key, m.WhenToUse)
	}
	return nil
}

func (c *chat) toolsCommand(ctx context.Context, _ string) error {
	m, err := c.Client.Mode(ctx, c.mode)
	if err != nil {
		return err
	}
	tools, err := c.Client.Tools(ctx)
	if err != nil {
		return err
	}
	// The mode-change tool is there in every mode (AGN-011 §4.2).
	inMode := map[string]bool{"agent_change_mode": true}
	for _, name := range m.Tools {
		inMode[name] = true
	}
	c.out.line("On the server, in mode %s:", c.mode)
	for _, t := range tools {
		if inMode[t.Name] {
			c.out.entry(21, "  %-18s %s", t.Name, firstSentence(t.Description))
		}
	}
	c.out.line("On this machine, in %s:", c.Tools.Dir())
	for _, d := range c.Tools.Definitions() {
		c.out.entry(21, "  %-18s %s", d.Name, firstSentence(d.Description))
	}
	return nil
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}

// maxPages bounds how many pages of the history are read.
const maxPages = 1000

func (c *chat) historyCommand(ctx context.Context, _ string) error {
	page := client.Page{Limit: 200}
	n := 0
	for range maxPages {
		l, err := c.Client.ModeHistory(ctx, c.session, page)
		if err != nil {
			return err
		}
		for _, h := range l.Data {
			n++
			c.out.line("%s  %s → %s  by %s: %s", h.At.Local().Format("2006-01-02 15:04:05"), h.PreviousMode, h.Mode, h.Actor, h.Reason)
		}
		if !l.HasMore {
			break
		}
		page.Cursor = l.NextCursor
	}
	if n == 0 {
		c.out.line("The mode has not changed; it is %s.", c.mode)
	}
	return nil
}

func (c *chat) sessionCommand(ctx context.Context, _ string) error {
	s, err := c.Client.Session(ctx, c.session)
	if err != nil {
		return err
	}
	c.mode = s.Mode
	c.out.line("session   %s", s.SessionID)
	c.out.line("server    %s", c.Client.URL())
	c.out.line("mode      %s (%s)", s.Mode, s.ModeDisplayName)
	c.out.line("context   %s/%s", s.AgentContextID, s.ConversationContextID)
	c.out.line("turns     %d", s.Turns)
	if s.Parent != nil {
		c.out.line("parent    %s, up to turn %s", s.Parent.SessionID, s.Parent.TurnID)
	}
	c.out.line("created   %s", s.CreatedAt.Local().Format("2006-01-02 15:04:05"))
	c.out.line("files in  %s", c.Tools.Dir())
	return nil
}

func (c *chat) requestsCommand(ctx context.Context, argument string) error {
	if c.lastTurn == "" {
		return errors.New("there was no turn yet")
	}
	calls, err := c.Client.Requests(ctx, c.session, c.lastTurn)
	if err != nil {
		return err
	}
	if argument != "" {
		n, err := strconv.Atoi(argument)
		if err != nil || n < 1 || n > len(calls) {
			return fmt.Errorf("want the number of a request, 1 to %d", len(calls))
		}
		call := calls[n-1]
		c.out.line("canonical, sha256 %s\n%s\nwire, sha256 %s\n%s", call.CanonicalSHA256, call.Canonical, call.WireSHA256, call.Wire)
		return nil
	}
	c.out.line("turn %s", c.lastTurn)
	for _, call := range calls {
		tokens := ""
		if call.Usage != nil {
			tokens = fmt.Sprintf("  %d tokens in, %d out", call.Usage.InputTokens, call.Usage.OutputTokens)
		}
		c.out.line("%3d  canonical %s  wire %s%s", call.N, firstRunes(call.CanonicalSHA256, 12), firstRunes(call.WireSHA256, 12), tokens)
	}
	return nil
}

func firstRunes(s string, n int) string {
	r := []rune(s)
	return string(r[:min(n, len(r))])
}
