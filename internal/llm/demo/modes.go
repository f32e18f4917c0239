package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The server tools that the script knows.
const (
	changeMode = "agent_change_mode"
	listModes  = "agent_list_modes"
)

// options is the question of TUL-007 §4.1; offered finds the mode in it again.
const options = "Would you like to:\n1) Stay in the current mode,\n2) Switch this session to **%[1]s**, or\n3) Switch to **%[1]s** and start a new session for this work?"

var offered = pattern(`2\) Switch this session to \*\*([a-z0-9_]+)\*\*, or`)

// propose asks for the user's consent. It never calls the tool (TUL-007 §4.3).
func propose(because string, m mode) answer {
	return answer{text: because + "\n" + fmt.Sprintf(options, m.key) + "\n\nAnswer with 1, 2 or 3."}
}

// choose acts on the user's answer to a proposal (TUL-007 §4.2).
func choose(c conversation) (answer, bool) {
	m := offered().FindStringSubmatch(c.before)
	if m == nil {
		return answer{}, false
	}
	key, option := m[1], choice(c.instruction)
	// "Switch to" another mode than the one on offer is a wish, not a consent.
	if other, ok := c.wanted(); ok && other.key != key && option != stay {
		return answer{}, false
	}
	switch option {
	case undecided:
		return answer{}, false
	case stay:
		return answer{text: fmt.Sprintf("All right: the session stays in %s mode and nothing was changed. Ask for **%s** whenever you want it.", label(c.modeNamed(c.mode)), key)}, true
	}
	if _, ok := c.attached(changeMode); !ok {
		return c.cannotSwitch(), true
	}
	arguments := encode(struct {
		Mode   string `json:"mode"`
		Branch bool   `json:"branch"`
		Reason string `json:"reason"`
	}{key, option == switchAndBranch, reason(c.asked, key)})
	return answer{calls: []call{{name: changeMode, arguments: arguments}}}, true
}

func (c conversation) cannotSwitch() answer {
	return answer{text: fmt.Sprintf("I cannot switch: the tool `%s` is not attached to this turn. The session stays in %s mode.", changeMode, label(c.modeNamed(c.mode)))}
}

func reason(asked, key string) string {
	if asked == "" {
		return fmt.Sprintf("The user chose %s mode.", key)
	}
	return fmt.Sprintf("The user chose %s mode after asking: %s", key, shorten(asked, 120))
}

// The three options of a proposal, and none of them.
const (
	undecided       = 0
	stay            = 1
	switchHere      = 2
	switchAndBranch = 3
)

// lead is what may come before the word that decides. The patterns begin at the
// beginning of the text: a choice is made in so many words, not by a word that
// happens to stand somewhere.
const lead = `^(?:(?:yes|yep|yeah|ok|okay|sure|please|great|fine|good|all ?right|let's|just|then|i want to|i'd like to|i would like to|i choose to|go ahead and)\W+)*`

var (
	byNumber   = pattern(`^\W*([123])\W*(?:please\W*)?$|^\(?([123])[).:,]\s|\b(?:option|choice|number|take|choose|pick|go with)\s+(?:number\s+)?([123])\b`)
	noBranch   = pattern(`^(?:don't|do not|no|not|without)\b[^,.;]*\bnew session[,.;]\s*|[,.;]?\s*(?:but\s+)?(?:not|no|without|don't|do not)\b[^,.;]*\bnew session.*$`)
	newSession = pattern(lead + `(?:no\W+)?(?:(?:switch|start|open|create|do it)\b.*\bnew session\b|(?:in |with )?(?:a )?new session\b|(?:switch and )?branch\b)`)
	staying    = pattern(lead + `(?:remain|keep|never ?mind)\b|\bstay\b|^(?:no|nope|nah)\b|(?:n't|not|never) (?:switch|change)`)
	switching  = pattern(lead + `switch\b|^(?:yes|yep|yeah|ok|okay|sure|go ahead|do it|please do)\b`)
)

// choice reads the user's answer to the three options. What is long or asks back is
// no consent.
func choice(instruction string) int {
	const long = 14 // words
	s := strings.ToLower(strings.TrimSpace(strings.ReplaceAll(instruction, "’", "'")))
	if strings.HasSuffix(s, "?") || len(strings.Fields(s)) > long {
		return undecided
	}
	if m := byNumber().FindStringSubmatch(s); m != nil {
		return int((m[1] + m[2] + m[3])[0] - '0')
	}
	s = noBranch().ReplaceAllString(s, "")
	switch {
	case newSession().MatchString(s):
		return switchAndBranch
	case staying().MatchString(s):
		return stay
	case switching().MatchString(s):
		return switchHere
	}
	return undecided
}

var (
	allModes  = pattern(`(?i)\b(which|what|list|show|available|all|tell me about|are there|explain)\b.*\bmodes\b|^modes\b`)
	myMode    = pattern(`(?i)\bcurrent mode\b|\b(which|what|what's the) mode\W+(am i|are we|is this|is it|is the session|is active|is on|now)\b|^(which|what|what's the) mode\W*$`)
	whichMode = pattern(`(?i)\b(which|what) mode\b`)
	examples  = pattern(`(?i)\bexamples?\b`)
)

// tellModes answers questions about the catalogue, with the tool when it is there.
func tellModes(c conversation) (answer, bool) {
	switch {
	case myMode().MatchString(c.instruction):
		m := c.modeNamed(c.mode)
		text := fmt.Sprintf("This session is in %s mode.", label(m))
		if m.whenToUse != "" {
			text += " " + m.whenToUse
		}
		return answer{text: text}, true
	case allModes().MatchString(c.instruction):
	case whichMode().MatchString(c.instruction):
		if a, ok := suggestMode(c); ok {
			return a, true
		}
	default:
		return answer{}, false
	}
	if _, ok := c.attached(listModes); !ok {
		return answer{text: c.catalogue()}, true
	}
	arguments := "{}"
	if examples().MatchString(c.instruction) {
		arguments = `{"includeExamples":true}`
	}
	return answer{calls: []call{{name: listModes, arguments: arguments}}}, true
}

// catalogue renders the modes as the request describes them.
func (c conversation) catalogue() string {
	if len(c.modes) == 0 {
		return fmt.Sprintf("I was not told which modes there are, only that this session is in **%s** mode.", c.mode)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "There are %d modes:\n", len(c.modes))
	for _, m := range c.modes {
		fmt.Fprintf(&b, "- %s%s: %s\n", label(m), c.here(m.key), m.whenToUse)
	}
	b.WriteString("\nSay “switch to " + c.modes[len(c.modes)-1].key + "” to change.")
	return b.String()
}

// here marks the current mode in a list.
func (c conversation) here(key string) string {
	if key == c.mode {
		return ", the current one"
	}
	return ""
}

var aMode = pattern(`(?i)\bmode\b`)

var switchTo = pattern(`(?i)\b(?:switch|change|go|move)\b(?: me| us| back| over| this session| the session| the mode| mode)* (?:in)?to (?:the )?(.+?)(?:,? (?:and|please|now|for)\b.*)?[.!]*$`)

// wanted returns the mode of the catalogue that the user asks to switch to.
func (c conversation) wanted() (mode, bool) {
	m := switchTo().FindStringSubmatch(strings.TrimSpace(c.instruction))
	if m == nil {
		return mode{}, false
	}
	asked := words(m[1])
	var found []mode
	for _, m := range c.modes {
		name := words(m.key + " " + m.name)
		if len(asked) > 0 && !slices.ContainsFunc(asked, func(w string) bool { return !slices.Contains(name, w) }) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return mode{}, false
	}
	return found[0], true
}

// requestSwitch takes up an explicit wish for a mode, which still needs a choice: to
// switch here or in a new session.
func requestSwitch(c conversation) (answer, bool) {
	m, ok := c.wanted()
	if !ok {
		asks := switchTo().MatchString(c.instruction) && aMode().MatchString(c.instruction)
		if asks && len(c.modes) > 0 {
			return answer{text: "I do not know which mode you mean. " + c.catalogue()}, true
		}
		return answer{}, false
	}
	if m.key == c.mode {
		return answer{text: fmt.Sprintf("This session is in %s mode already.", label(m))}, true
	}
	if _, ok := c.attached(changeMode); !ok {
		return c.cannotSwitch(), true
	}
	return propose(fmt.Sprintf("I can switch to %s mode, on your word.", label(m)), m), true
}

// suggestMode proposes another mode when the instruction fits it clearly better.
func suggestMode(c conversation) (answer, bool) {
	const enough = 2
	if _, ok := c.attached(changeMode); !ok {
		return answer{}, false
	}
	asked := words(c.instruction)
	var best mode
	high, second := 0, fit(asked, c.modeNamed(c.mode))
	for _, m := range c.modes {
		if m.key == c.mode || m.retired {
			continue
		}
		switch n := fit(asked, m); {
		case n > high:
			best, high, second = m, n, max(high, second)
		case n > second:
			second = n
		}
	}
	if high < enough || high <= second {
		return answer{}, false
	}
	because := fmt.Sprintf("It seems like what you are asking for would be better served by **%s** mode.", best.key)
	if best.whenToUse != "" {
		because += " " + best.whenToUse
	}
	return propose(because, best), true
}

// fit counts what an instruction shares with a mode: a word of its name is worth two
// of its description.
func fit(asked []string, m mode) int {
	name, when := words(m.key+" "+m.name), words(m.whenToUse)
	score := 0
	for _, w := range asked {
		switch {
		case slices.Contains(name, w):
			score += 2
		case slices.Contains(when, w):
			score++
		}
	}
	return score
}

// noise are words that say nothing about what an instruction is for.
const noise = " a about all also an and any are as at be but by can could do does " +
	"for from get give has have help how i if in into is it let like make may me mode modes my need new no not of on " +
	"one or our out please session should so some switch tell than that the their them then there thing this to " +
	"up us use user using want was we what when where which while who why will with work would you your change "

// words returns the telling words of a text, each once, in lower case and without
// the plural's s.
func words(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) < 2 || strings.Contains(noise, " "+w+" ") {
			continue
		}
		if len(w) > 2 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
			w = strings.TrimSuffix(w, "s")
		}
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// encode is json.Marshal for plain values, without the escaping meant for HTML.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // only texts, flags and lists of texts come here
		return "{}"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
