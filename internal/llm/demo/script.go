package demo

import (
	"fmt"
	"slices"
	"strings"
)

// answer is what the model says and the calls that it makes.
type answer struct {
	text  string
	calls []call
}

type call struct{ name, arguments string }

// reply is the script. It speaks after results and never calls again then, so a turn
// takes two model calls at most.
func reply(c conversation) answer {
	if len(c.results) > 0 {
		return answer{text: c.report()}
	}
	// The first that knows what to do wins: what is asked for in so many words comes
	// before what is guessed. Only the first two can change the mode.
	for _, rule := range []func(conversation) (answer, bool){
		callLiterally, choose, tellModes, callClientTools, requestSwitch, suggestMode, smallTalk,
	} {
		if a, ok := rule(c); ok {
			return a
		}
	}
	return answer{text: c.introduce(true)}
}

var (
	greeting  = pattern(`(?i)^(hi|hello|hey|hallo|moin|greetings|good (morning|afternoon|evening))\b`)
	thanks    = pattern(`(?i)^(thanks|thank you|thx|cheers|bye|goodbye|see you)\b`)
	whoAreYou = pattern(`(?i)^(help|\?|who are you|what are you|what is this|what can (you|i) do|how does (this|it) work)\b`)
)

// smallTalk answers what needs no work.
func smallTalk(c conversation) (answer, bool) {
	const short = 5 // words; beyond, there is a question in it
	in := c.instruction
	switch few := len(strings.Fields(in)) <= short; {
	case few && greeting().MatchString(in):
		return answer{text: fmt.Sprintf("Hello! I am the offline demo model of Aptix, and this session is in **%s** mode.\n\n%s", c.mode, c.suggestions())}, true
	case few && thanks().MatchString(in):
		return answer{text: "You are welcome. The session stays where it is; come back with its id whenever you like."}, true
	case whoAreYou().MatchString(in):
		return answer{text: c.introduce(false)}, true
	}
	return answer{}, false
}

// introduce says who answers, where the session stands and what to try. With echo
// it owns up that it cannot do what was asked.
func (c conversation) introduce(echo bool) string {
	var b strings.Builder
	b.WriteString("This is the offline demo model of Aptix: a script")
	if echo && c.instruction != "" {
		fmt.Fprintf(&b, ", so “%s” is beyond me", shorten(c.instruction, 80))
	}
	b.WriteString(". Everything around me is real, though.\n\n")
	m := c.modeNamed(c.mode)
	fmt.Fprintf(&b, "The session is in %s mode", label(m))
	switch names := c.toolNames(); len(names) {
	case 0:
		b.WriteString(" and no tools are attached to this turn.")
	case 1:
		fmt.Fprintf(&b, " and one tool is attached to this turn: %s.", names[0])
	default:
		fmt.Fprintf(&b, " and %d tools are attached to this turn: %s.", len(names), strings.Join(names, ", "))
	}
	if with := c.attachments(); with != "" {
		fmt.Fprintf(&b, " Your message brought %s, which a real model would look at.", with)
	}
	b.WriteString("\n\n" + c.suggestions())
	b.WriteString("\n\nFor real answers, set OPENAI_API_KEY and start Aptix again.")
	return b.String()
}

// suggestions lists what the model can do with what it has.
func (c conversation) suggestions() string {
	tries := []string{"list the modes"}
	others := slices.DeleteFunc(slices.Clone(c.modes), func(m mode) bool { return m.key == c.mode || m.retired })
	const ddr = "ddr_authoring" // of the built-in catalogue
	if c.mode != ddr && (len(others) == 0 || slices.ContainsFunc(others, func(m mode) bool { return m.key == ddr })) {
		tries = append(tries, "help me write a design decision record")
		others = slices.DeleteFunc(others, func(m mode) bool { return m.key == ddr })
	}
	if len(others) > 0 {
		tries = append(tries, "switch to "+others[0].key)
	}
	_, lists := c.attached("list_files")
	_, reads := c.attached("read_file")
	if lists {
		tries = append(tries, "list files")
	}
	if reads {
		tries = append(tries, "read README.md")
	} else {
		tries = append(tries, "read README.md (in `aptix chat`, which brings tools for your files)")
	}
	return "Try one of these:\n- " + strings.Join(tries, "\n- ")
}

func (c conversation) toolNames() []string {
	var out []string
	for _, t := range c.tools {
		out = append(out, "`"+t.Name+"`")
	}
	return out
}

func (c conversation) attachments() string {
	var with []string
	if c.artifacts {
		with = append(with, "files")
	}
	switch {
	case c.images == 1:
		with = append(with, "an image")
	case c.images > 1:
		with = append(with, fmt.Sprintf("%d images", c.images))
	}
	return strings.Join(with, " and ")
}

// label shows a mode to people.
func label(m mode) string {
	if m.name == "" || m.name == m.key {
		return "**" + m.key + "**"
	}
	return fmt.Sprintf("**%s** (%s)", m.key, m.name)
}

// shorten makes one line of at most n characters.
func shorten(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= n {
		return string(r)
	}
	return strings.TrimSpace(string(r[:n-1])) + "…"
}
