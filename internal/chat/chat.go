// Package chat is the conversation of `aptix chat`: it reads what the user types line
// by line, sends it as turns, shows what comes back as it comes, and runs the client
// tools that a turn waits for, asking the user where a tool says so. The server owns
// the session and its mode; the chat shows the mode that the last answer carried
// (AGN-011 §3.4) and keeps nothing that matters, so that a session can be taken up
// again from any terminal.
//
// One goroutine does everything in order; a second one only reads lines, and while a
// turn streams or a tool runs a third one only waits for it, so that Ctrl-C is heard
// at any time. What is printed comes out in the order of the events. Nothing that a
// model or a tool says reaches the terminal without having been made safe.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
)

// ErrInterrupted tells that the user left with Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Config holds the parts of a conversation. Client, Tools, In and Out are required.
type Config struct {
	Client *client.Client
	Tools  *localtools.Tools
	In     io.Reader
	Out    io.Writer
	// Terminal tells that a person types at In. Otherwise each line is repeated after
	// the prompt, so that the output reads as a conversation.
	Terminal bool
	// Keyboard is the terminal at which that person can edit lines, when Out shows on it
	// too; nil takes lines from In as they come.
	Keyboard *os.File
	// Colour tells that Out understands colours.
	Colour bool
	// Interrupts delivers each Ctrl-C; nil means that there are none.
	Interrupts <-chan os.Signal
	// Session is the session to go on with; empty opens a new one.
	Session string
	// Mode is the initial mode of a new session, the server's choice when empty.
	Mode string
}

// chat is a conversation in progress.
type chat struct {
	Config
	in  input
	out *screen

	session  string
	mode     string
	lastTurn string // the last turn of this conversation, for /requests
	branches bool   // the last change of the mode means a new session
}

// Run holds a conversation until the user leaves it: with nil after /quit or the end of
// the input, with ErrInterrupted after Ctrl-C.
func Run(ctx context.Context, cfg Config) error {
	c := &chat{Config: cfg, out: newScreen(cfg.Out, cfg.Colour)}
	if cfg.Keyboard != nil {
		c.in = newEditor(console{in: cfg.Keyboard, out: cfg.Out}, complete)
		c.out.fold.width = func() int { return cells(cfg.Keyboard) }
	} else {
		c.in = readLines(cfg.In, cfg.Terminal)
	}
	defer c.in.close()
	if err := c.open(ctx); err != nil {
		return err
	}
	err := c.converse(ctx)
	c.out.command("Go on later with: aptix chat%s --session %s", c.at(), c.session)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// cells is how wide a terminal is, 0 when it does not tell.
func cells(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// at returns the flag that names the server, unless it is the usual one.
func (c *chat) at() string {
	if u := c.Client.URL(); u != client.DefaultURL {
		return " --url " + u
	}
	return ""
}

// open opens a session or takes one up.
func (c *chat) open(ctx context.Context) error {
	if c.Session != "" {
		return c.resume(ctx)
	}
	s, err := c.Client.CreateSession(ctx, client.NewSession{SessionID: client.NewID(), Mode: c.Mode, Tools: c.tools()})
	if err != nil {
		return err
	}
	c.session, c.mode = s.SessionID, s.Mode
	c.out.note("Session %s at %s. The assistant may read files in %s.", c.session, c.Client.URL(), c.Tools.Dir())
	c.out.note("/help lists the commands; Ctrl-C stops a turn, Ctrl-D leaves.")
	c.welcome(s.WelcomeMessage)
	return nil
}

// converse takes one line after the other.
func (c *chat) converse(ctx context.Context) error {
	for {
		line, err := c.prompt(ctx)
		if err != nil {
			return err
		}
		switch {
		case line == "":
		case strings.HasPrefix(line, "/"):
			if err := c.command(ctx, line); err != nil {
				return err
			}
		default:
			if err := c.turn(ctx, line); err != nil {
				return err
			}
		}
	}
}

// prompt asks for the next line. A line that ends in a backslash goes on in the next.
func (c *chat) prompt(ctx context.Context) (string, error) {
	interrupted := false
	text := ""
	for {
		prompt := fmt.Sprintf("[%s] > ", c.mode)
		if text != "" {
			prompt = strings.Repeat(" ", len(prompt)-2) + "> "
		}
		line, err := c.read(ctx, prompt)
		switch {
		case errors.Is(err, ErrInterrupted) && !interrupted:
			interrupted, text = true, ""
			c.out.note("Ctrl-C once more leaves.")
			continue
		case errors.Is(err, io.EOF) && text != "":
			return text, nil
		case err != nil:
			return "", err
		}
		if rest, more := strings.CutSuffix(line, `\`); more {
			text += rest + "\n"
			continue
		}
		return strings.TrimSpace(text + line), nil
	}
}

// read shows a prompt and returns the next line, io.EOF or ErrInterrupted.
func (c *chat) read(ctx context.Context, prompt string) (string, error) {
	if c.Keyboard != nil {
		c.out.newline() // the editor shows the prompt, and all that is typed
	} else {
		c.out.prompt(prompt)
	}
	select {
	case l := <-c.in.next(c.out.styled(bold, prompt)):
		switch {
		case c.Keyboard != nil:
		case l.err != nil:
			c.out.newline()
		case c.Terminal:
			c.out.entered()
		default:
			c.out.echo(l.text)
		}
		return l.text, l.err
	case <-c.Interrupts:
		c.out.newline()
		return "", ErrInterrupted
	case <-ctx.Done():
		c.out.newline()
		return "", context.Cause(ctx)
	}
}

// ask asks a question that only an explicit yes agrees to, or for a default of yes only
// an explicit no declines.
func (c *chat) ask(ctx context.Context, question string, usual bool) (bool, error) {
	options := " [y/N] "
	if usual {
		options = " [Y/n] "
	}
	answer, err := c.answer(ctx, question+options)
	if err != nil {
		return false, err
	}
	switch answer {
	case "y", "yes":
		return true, nil
	case "":
		return usual, nil
	}
	return false, nil
}

// answer reads what the user answers to a question, in small letters.
func (c *chat) answer(ctx context.Context, question string) (string, error) {
	// What a person typed before the question was asked is no answer to it.
	if n := c.in.question(true); n > 0 {
		c.out.note("(%d lines typed before the question are left out)", n)
	}
	defer c.in.question(false)
	answer, err := c.read(ctx, question)
	return strings.ToLower(strings.TrimSpace(answer)), err
}

// cancelTime bounds the request that ends a turn.
const cancelTime = 5 * time.Second

// cancel asks the server to end a turn.
func (c *chat) cancel(ctx context.Context, turn string) bool {
	// The turn's own context may have ended just now; this call is still wanted.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if err := c.Client.Cancel(ctx, c.session, turn); err != nil {
		c.out.fail(err)
		return false
	}
	return true
}

// tools returns the local tools in the form in which a session takes them.
func (c *chat) tools() []client.Tool {
	var out []client.Tool
	for _, d := range c.Tools.Definitions() {
		out = append(out, client.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
	}
	return out
}
