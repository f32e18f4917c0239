package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 8

// literal is the order to call a tool by its name; its arguments follow.
var literal = pattern("(?i)\\bcall\\s+(?:the\\s+)?(?:tool\\s+)?`?([a-z0-9_-]{1,64})`?(?:\\s+with)?(?:\\s+arguments)?\\s*")

// callLiterally does what "call NAME {json}" says, with any tool that is attached.
// Arguments that are not JSON go out as they are: the tool's answer shows what
// happens then.
func callLiterally(c conversation) (answer, bool) {
	var a answer
	text := c.instruction
	for len(a.calls) < maxCalls {
		m := literal().FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		name, rest := text[m[2]:m[3]], text[m[1]:]
		arguments := "{}"
		if strings.HasPrefix(rest, "{") {
			arguments, rest = leadingJSON(rest)
		}
		text = rest
		if _, ok := c.attached(name); ok {
			a.calls = append(a.calls, call{name: name, arguments: arguments})
		} else if strings.Contains(name, "_") {
			names := "none"
			if have := c.toolNames(); len(have) > 0 {
				names = strings.Join(have, ", ")
			}
			return answer{text: fmt.Sprintf("There is no tool `%s` in this turn. Attached are: %s.", name, names)}, true
		}
	}
	return a, len(a.calls) > 0
}

// leadingJSON cuts the JSON value off the beginning of text; when there is none, all
// of it.
func leadingJSON(text string) (value, rest string) {
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil {
		return strings.TrimSpace(text), ""
	}
	return string(bytes.TrimSpace(raw)), text[dec.InputOffset():]
}

// ask is one thing that the user wants a client tool to do.
type ask struct {
	tool string
	// values go into the tool's arguments, in this order.
	values []value
}

// value is one argument: what to pass, and what its parameter may be called.
type value struct {
	names []string
	text  string
	// optional values are left out when the tool has no such parameter.
	optional bool
}

// The names under which tools take what an ask passes, the likeliest first.
var (
	pathNames    = []string{"path", "filepath", "file", "filename", "relativepath", "directory", "dir", "uri", "name"}
	queryNames   = []string{"query", "pattern", "text", "regex", "search", "term", "q"}
	contentNames = []string{"content", "contents", "text", "data", "body"}
	commandNames = []string{"command", "cmd", "commandline", "script", "args"}
)

// callClientTools turns "read a.go and b.go" into calls of the client's tools, all in
// one answer.
func callClientTools(c conversation) (answer, bool) {
	var a answer
	missing := ""
	for _, clause := range clauses(c.instruction) {
		for _, k := range asksOf(clause) {
			t, ok := c.attached(k.tool)
			if !ok {
				missing = k.tool
				continue
			}
			if len(a.calls) < maxCalls {
				a.calls = append(a.calls, call{name: t.Name, arguments: t.arguments(k.values)})
			}
		}
	}
	if len(a.calls) == 0 && missing != "" && missing != "search_files" { // "find" means many things
		return answer{text: fmt.Sprintf("I would call `%s` for that, but this session has no such tool. "+
			"`aptix chat` brings tools for your files; any other client can register its own.", missing)}, true
	}
	return a, len(a.calls) > 0
}

// arguments builds the JSON of a call from the parameters that the tool declares.
func (t tool) arguments(values []value) string {
	out := map[string]any{}
	for _, v := range values {
		name, ok := t.parameter(v, out)
		if !ok {
			continue
		}
		if t.Parameters.Properties[name].Type == "array" {
			out[name] = strings.Fields(v.text)
		} else {
			out[name] = v.text
		}
	}
	return encode(out)
}

// parameter finds the parameter for a value: by its name, else the first that is
// still free, the required ones before the others.
func (t tool) parameter(v value, taken map[string]any) (string, bool) {
	var names []string
	for name := range t.Parameters.Properties {
		if _, used := taken[name]; !used {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, want := range v.names {
		for _, name := range names {
			if strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)) == want {
				return name, true
			}
		}
	}
	if len(t.Parameters.Properties) == 0 { // a tool that does not tell
		return v.names[0], !v.optional
	}
	if v.optional {
		return "", false
	}
	for _, name := range append(slices.Clone(t.Parameters.Required), names...) {
		if _, used := taken[name]; !used && slices.Contains(names, name) {
			return name, true
		}
	}
	return "", false
}

// verb finds the beginning of a clause that asks for something. It is applied to a
// text whose quotations are blanked out.
var verb = pattern(`(?i)(?:^|[,;.:!?]\s+|\n\s*|\s(?:and|then|also|plus)\s+)` +
	`(?:(?:and|then|also|now|please|can you|could you|would you|i want you to|i'd like you to|let's|first|next|finally|just),?\s+)*` +
	`(read|show|open|cat|view|display|print|summari[sz]e|explain|describe|check|look at|what is in|what's in|list|ls|search|find|grep|look for|write|save|put|create|make|run|execute)\b`)

// clauses cuts an instruction before each verb that starts a new request.
func clauses(text string) []string {
	masked := quotation().ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat("x", len(q)) })
	at := verb().FindAllStringSubmatchIndex(masked, -1)
	var out []string
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		out = append(out, strings.TrimSpace(text[m[2]:end]))
	}
	return out
}

// quotation is a quoted passage. Single quotes are apostrophes more often than not.
var quotation = pattern("`[^`]*`|\"[^\"]*\"|“[^”]*”")

// unquote returns the quoted passage when s is one, else s.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if q := quotation().FindString(s); q != "" && q == s {
		return strings.Trim(s, "`\"“”")
	}
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

var (
	listFiles  = pattern(`(?i)^(?:list|show|display|print|view)\b.*\b(?:files|directory|directories|folders?|dir)\b|^ls\b`)
	listWhere  = pattern(`(?i)(?:^ls|\b(?:in|of|under|inside|from))\s+(?:the\s+)?(\S+?)(?:\s+(?:directory|folder|dir))?[.!?]*$`)
	readFile   = pattern(`(?i)^(?:read|show|open|cat|view|display|print|look at|what is in|what's in)\b`)
	studyFile  = pattern(`(?i)^(?:summari[sz]e|explain|describe|check)\b`)
	searchFor  = pattern(`(?is)^(?:search|grep|find|look for)\s+(?:(?:the\s+|my\s+|all\s+)?(?:files|code|project|workspace|repo|repository|codebase)\s+)?(?:for\s+)?(?:all\s+|every\s+|any\s+)?(?:the\s+(?:word|text|string)\s+|(?:occurrence|use|usage|reference)s?\s+(?:of|to)\s+)?(.+?)[.!?]*$`)
	searchIn   = pattern(`(?is)^(.+?)\s+(?:in|under|inside)\s+(?:the\s+|this\s+|my\s+|all\s+)?(\S+?)(?:\s+(?:directory|folder|dir))?$`)
	writeTo    = pattern(`(?is)^(?:write|save|put)\s+(.+)\s+(?:in)?to\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+)?(\S+?)[.!]?$`)
	writeColon = pattern(`(?is)^(?:write|save)\s+(?:to\s+)?(?:the\s+)?(?:file\s+)?(\S+?):\s+(.+)$`)
	createFile = pattern(`(?is)^(?:create|make|write)\s+(?:a\s+|an\s+|the\s+)?(?:new\s+)?(?:empty\s+)?(?:file\s+)?(?:called\s+|named\s+)?(\S+?)(?:\s+(?:with|containing|saying)\s+(?:the\s+)?(?:contents?\s+|text\s+)?(.+))?[.!]?$`)
	runCommand = pattern(`(?is)^(?:run|execute)\s+(?:the\s+command\s+)?(.+)$`)
	notCommand = pattern(`(?i)^(?:the|a|an|my|your|our|all|it|this|that|these|those|into|out|through|away)\b`)
	anywhere   = pattern(`(?i)^(?:here|it|this|project|workspace|repo|repository|codebase|code|files|current|directory|folder)$`)
)

// asksOf returns what a clause asks for; a clause that names several files asks for
// each of them.
func asksOf(clause string) []ask {
	if listFiles().MatchString(clause) {
		v := value{names: pathNames, text: ".", optional: true}
		if m := listWhere().FindStringSubmatch(clause); m != nil && !anywhere().MatchString(m[1]) {
			v.text = unquote(m[1])
		}
		return []ask{{tool: "list_files", values: []value{v}}}
	}
	if m := searchFor().FindStringSubmatch(clause); m != nil {
		return asksToSearch(m[1])
	}
	if k, ok := askToWrite(clause); ok {
		return []ask{k}
	}
	if m := runCommand().FindStringSubmatch(clause); m != nil {
		command := unquote(m[1])
		if q := quotation().FindString(m[1]); strings.HasPrefix(q, "`") {
			command = unquote(q)
		}
		if command == "" || notCommand().MatchString(command) {
			return nil
		}
		return []ask{{tool: "run_command", values: []value{{names: commandNames, text: command}}}}
	}
	study := studyFile().MatchString(clause)
	if !study && !readFile().MatchString(clause) {
		return nil
	}
	var out []ask
	for _, name := range fileNames(clause, study) {
		out = append(out, ask{tool: "read_file", values: []value{{names: pathNames, text: name}}})
	}
	return out
}

func asksToSearch(what string) []ask {
	k := ask{tool: "search_files"}
	where := ""
	if m := searchIn().FindStringSubmatch(what); m != nil && (anywhere().MatchString(m[2]) || isFileName(unquote(m[2]), false)) {
		what = m[1]
		if !anywhere().MatchString(m[2]) {
			where = unquote(m[2])
		}
	}
	what = unquote(what)
	if what == "" || strings.HasPrefix(strings.ToLower(what), "out ") {
		return nil
	}
	k.values = []value{{names: queryNames, text: what}}
	if where != "" {
		k.values = append(k.values, value{names: pathNames, text: where, optional: true})
	}
	return []ask{k}
}

func askToWrite(clause string) (ask, bool) {
	var file, content string
	if m := writeTo().FindStringSubmatch(clause); m != nil && isFileName(unquote(m[2]), false) {
		file, content = m[2], m[1]
	} else if m := writeColon().FindStringSubmatch(clause); m != nil && isFileName(unquote(m[1]), false) {
		file, content = m[1], m[2]
	} else if m := createFile().FindStringSubmatch(clause); m != nil && isFileName(unquote(m[1]), false) {
		file, content = m[1], m[2]
	} else {
		return ask{}, false
	}
	return ask{tool: "write_file", values: []value{
		{names: pathNames, text: unquote(file)},
		{names: contentNames, text: unquote(content)},
	}}, true
}

// fileNames returns the file names in a clause, each once.
func fileNames(clause string, study bool) []string {
	var out []string
	for _, w := range strings.FieldsFunc(clause, func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == ';' }) {
		w = strings.TrimRight(strings.Trim(w, "\"'`“”‘’()[]{}<>:!?"), ".:!?")
		if isFileName(w, study) && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

var (
	extension  = pattern(`^[^/]*\pL[^/]*\.[a-z0-9]{1,10}$|/[^/]+\.[a-z0-9]{1,10}$`)
	wellKnown  = pattern(`^(?:README|LICENSE|LICENCE|CHANGELOG|CONTRIBUTING|AUTHORS|NOTICE|TODO|Makefile|Dockerfile|Procfile|Gemfile|Rakefile)$`)
	shorthands = pattern(`(?i)^(?:e\.g|i\.e|a\.k\.a|and/or|yes/no|true/false)$`)
)

// isFileName guesses whether a word names a file. A study of something, such as
// "explain client/server", needs more of a hint than a slash.
func isFileName(w string, study bool) bool {
	if w == "" || strings.Contains(w, "://") || shorthands().MatchString(w) {
		return false
	}
	for _, r := range w {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/@+~\\", r) {
			return false
		}
	}
	if wellKnown().MatchString(w) || extension().MatchString(w) || strings.HasPrefix(w, ".") && len(w) > 2 {
		return true
	}
	return !study && strings.Contains(strings.Trim(w, "/"), "/")
}
