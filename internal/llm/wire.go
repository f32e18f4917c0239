package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/jsonstr"
	"github.com/aptixhq/aptix/internal/prompt"
)

// Lane holds what the wire request says beyond the canonical one, or says better.
type Lane struct {
	// Instructions is the mode layer, which the API forgets from one call to the
	// next and so is sent with each (decision 27).
	Instructions string
	// Tools are the turn's frozen tools in the flat form, compact; the API forgets them
	// too (decision 26).
	Tools []json.RawMessage
	// ToolOutputs are the results of the previous call's tools, in the model's
	// order (decision 25).
	ToolOutputs []agent.ToolResult
	// AllowedTools are the names of those among Tools that the model may call; empty allows
	// all of them.
	AllowedTools []string
	Images       []agent.Image
	// Artifacts are the turn's files; the binary ones are attached, the others
	// stand in the canonical text.
	Artifacts []agent.Artifact
	// History is the transcript so far. It is sent, as Replay returns it, unless the
	// request chains to a previous response (decision 29).
	History []json.RawMessage
	// WholeHistory is how many of the first items of History are known to be whole (see
	// Whole).
	WholeHistory int
	// Room bounds what is sent of the History, in bytes (see Shorten); 0 is no bound.
	Room int
	// Chain lets the provider remember the conversation (decision 29).
	Chain bool
	// OmitTemperature is for models that refuse it (decision 30).
	OmitTemperature bool
	// OmitStore is for endpoints that refuse to be told whether to remember, and
	// OmitToolChoice for those that would not heed it.
	OmitStore      bool
	OmitToolChoice bool
	// OmitImages is for endpoints that show the model none: the text of a tool's result
	// then stands for its images.
	OmitImages bool
	// EncryptedReasoning is for models that hand their reasoning out, to be given
	// back with the transcript; without effect when Chain (decision 29).
	EncryptedReasoning bool
	// FirstCall is the turn's first model call, the only one that may force a tool
	// (decision 28).
	FirstCall bool
}

// Wire is a request as it is posted, in parts: its bytes are Head, then the items of
// History and New joined by commas, then Tail. In parts because the journal stores
// New with every call and a replayed History never again.
type Wire struct {
	Head    string
	New     []json.RawMessage
	Tail    string
	History []json.RawMessage
	// LeftOut is how many turns the History lacks.
	LeftOut int
}

// Bytes returns the request body.
func (w Wire) Bytes() []byte {
	var b bytes.Buffer
	w.writeTo(&b)
	return b.Bytes()
}

// SHA256 returns the hash of the request body, in lower-case hex.
func (w Wire) SHA256() string {
	h := prompt.NewHash()
	w.each(h.String, h.Bytes)
	return h.Sum()
}

func (w Wire) writeTo(b *bytes.Buffer) {
	b.Grow(w.Size())
	w.each(func(s string) { b.WriteString(s) }, func(item []byte) { b.Write(item) })
}

// each passes the pieces of the request body on, in their order.
func (w Wire) each(text func(string), item func([]byte)) {
	text(w.Head)
	between := ""
	for _, items := range [][]json.RawMessage{w.History, w.New} {
		for _, i := range items {
			text(between)
			item(i)
			between = ","
		}
	}
	text(w.Tail)
}

// Size returns how many bytes the request body has, within some.
func (w Wire) Size() int {
	n := len(w.Head) + len(w.Tail)
	for _, items := range [][]json.RawMessage{w.History, w.New} {
		for _, i := range items {
			n += len(i) + 1
		}
	}
	return n
}

// request is everything of the body but the input items. What is empty is left out.
type request struct {
	Model              string
	Temperature        *float64
	Stream             *bool
	Store              *bool
	Include            []string
	PreviousResponseID string
	Instructions       string
	ToolChoice         any               // nil, a functionChoice or an allowedTools
	Tools              []json.RawMessage // compact
}

type functionChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type allowedTools struct {
	Type  string           `json:"type"`
	Mode  string           `json:"mode"`
	Tools []functionChoice `json:"tools"`
}

type message struct {
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content []part `json:"content"`
}

// part is an input_text, an input_image or an input_file.
type part struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Detail   string  `json:"detail,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
	Filename string  `json:"filename,omitempty"`
	FileData string  `json:"file_data,omitempty"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // a string, or parts
}

// encryptedReasoning makes the provider hand out its reasoning in a form that it can
// be given back, since it does not keep it itself.
const encryptedReasoning = "reasoning.encrypted_content"

// BuildWire says the canonical request in the words of the Responses API (decisions
// 25 to 30). It is a pure function: the same inputs give the same bytes.
func BuildWire(c prompt.Canonical, l Lane) Wire {
	r := request{
		Model:        c.Model,
		Temperature:  c.Temperature,
		Stream:       c.Stream,
		Store:        &l.Chain,
		Instructions: valid(l.Instructions),
		Tools:        objects(l.Tools),
	}
	if l.OmitTemperature {
		r.Temperature = nil
	}
	if l.OmitStore {
		r.Store = nil
	}
	if !l.Chain && l.EncryptedReasoning {
		r.Include = []string{encryptedReasoning}
	}
	r.ToolChoice = toolChoice(c, l, r.Tools)
	chained := l.Chain && c.PreviousResponseID != ""
	if chained {
		r.PreviousResponseID = c.PreviousResponseID
	}
	w := wire(r, items(c, l)...)
	if !chained {
		w.History, w.LeftOut = Shorten(Replay(l.History, l.WholeHistory, w.New), w.New, l.Room)
	}
	return w
}

// toolChoice is what the model must call, on the first call of a turn, or else what it may.
func toolChoice(c prompt.Canonical, l Lane, tools []json.RawMessage) any {
	may := func(name string) bool { return len(l.AllowedTools) == 0 || slices.Contains(l.AllowedTools, name) }
	switch {
	case l.OmitToolChoice:
		return nil
	case l.FirstCall && c.ToolChoice != nil && attached(tools, c.ToolChoice.Name) && may(c.ToolChoice.Name):
		return functionChoice{Type: "function", Name: c.ToolChoice.Name}
	case len(l.AllowedTools) == 0:
		return nil
	}
	choice := allowedTools{Type: "allowed_tools", Mode: "auto"}
	for _, name := range l.AllowedTools {
		choice.Tools = append(choice.Tools, functionChoice{Type: "function", Name: name})
	}
	return choice
}

// wire cuts the body of a request where its items belong.
func wire(r request, items ...json.RawMessage) Wire {
	b := buffers.Get().(*bytes.Buffer)
	defer release(b)
	b.Reset()
	r.head(b)
	return Wire{Head: heads.OfBytes(b.Bytes(), func(text string) string { return text }), New: items, Tail: r.tail()}
}

// tail is the body after its items. What the requests of a session do not have in common
// stands here, so that their heads are the same and stored once.
func (r request) tail() string {
	if r.PreviousResponseID == "" {
		return bareTail
	}
	return string(jsonstr.Append([]byte("]"+previousMember), r.PreviousResponseID)) + "}"
}

const (
	bareTail       = "]}"
	previousMember = `,"previous_response_id":`
)

// head writes the body up to where its items belong. That is done by hand because it goes
// with every call and holds all tools, which encoding/json would read once more.
func (r request) head(to *bytes.Buffer) {
	to.Grow(512 + len(r.Instructions))
	to.WriteString(`{"model":`)
	to.Write(jsonstr.Append(to.AvailableBuffer(), r.Model))
	if r.Temperature != nil {
		to.WriteString(`,"temperature":`)
		to.Write(encode(*r.Temperature))
	}
	if r.Stream != nil {
		to.WriteString(`,"stream":`)
		to.Write(strconv.AppendBool(to.AvailableBuffer(), *r.Stream))
	}
	if r.Store != nil {
		to.WriteString(`,"store":`)
		to.Write(strconv.AppendBool(to.AvailableBuffer(), *r.Store))
	}
	if len(r.Include) > 0 {
		to.WriteString(`,"include":`)
		to.Write(encode(r.Include))
	}
	if r.Instructions != "" {
		to.WriteString(`,"instructions":`)
		to.Write(jsonstr.Append(to.AvailableBuffer(), r.Instructions))
	}
	if r.ToolChoice != nil {
		to.WriteString(`,"tool_choice":`)
		to.Write(encode(r.ToolChoice))
	}
	if len(r.Tools) > 0 {
		to.WriteString(`,"tools":[`)
		for i, t := range r.Tools {
			if i > 0 {
				to.WriteByte(',')
			}
			to.Write(t)
		}
		to.WriteByte(']')
	}
	to.WriteString(`,"input":[`)
}

// items are the input items that this call adds: the system message, the results of
// the previous call's tools, the user message.
func items(c prompt.Canonical, l Lane) []json.RawMessage {
	var out []json.RawMessage
	var user []json.RawMessage
	for _, m := range c.Input {
		switch m.Role {
		case prompt.RoleSystem:
			if parts := texts(m, l); len(parts) > 0 {
				out = append(out, systemItem(message{Type: "message", Role: m.Role, Content: parts}))
			}
		case prompt.RoleUser:
			if parts := userParts(m, l); len(parts) > 0 {
				user = append(user, encode(message{Type: "message", Role: m.Role, Content: parts}))
			}
		}
	}
	for _, r := range l.ToolOutputs {
		out = append(out, encode(functionOutput{Type: itemFunctionOutput, CallID: string(r.CallID), Output: outputOf(r, l.OmitImages)}))
	}
	return append(out, user...)
}

// userParts are the parts of the user message; none when it says nothing beyond its
// header, as on a continuation, which must not tell the model to start over
// (decisions 22, 25).
func userParts(m prompt.Message, l Lane) []part {
	parts := texts(m, l)
	header := prompt.Message{Role: m.Role, Content: m.Content[:min(1, len(m.Content))]}
	said := len(parts) > 1 || !header.HeaderOnly()
	for _, i := range l.Images {
		parts = append(parts, part{Type: "input_image", Detail: "auto", ImageURL: dataURL(i.MimeType, i.DataBase64)})
		said = true
	}
	for _, a := range l.Artifacts {
		data, text := prompt.ArtifactData(a)
		if text {
			continue
		}
		parts = append(parts, part{Type: "input_file", Filename: valid(a.FileName),
			FileData: dataURL(a.MimeType, base64.StdEncoding.EncodeToString(data))})
		said = true
	}
	if !said {
		return nil
	}
	return parts
}

// texts are the text parts of a message. Empty ones, which say nothing, are left
// out, and so is the block of tool results when they go out as items of their own.
func texts(m prompt.Message, l Lane) []part {
	var out []part
	for i, c := range m.Content {
		if c.Text == "" {
			continue
		}
		if i > 0 && m.Role == prompt.RoleUser && len(l.ToolOutputs) > 0 && strings.HasPrefix(c.Text, prompt.ToolResultsHeader+"\n") {
			continue
		}
		out = append(out, part{Type: "input_text", Text: &c.Text})
	}
	return out
}

// outputOf is what the model gets as the result of a call: text, and behind it the images.
func outputOf(r agent.ToolResult, omitImages bool) any {
	text := output(r)
	if len(r.Images) == 0 || omitImages {
		return text
	}
	parts := []part{{Type: "input_text", Text: &text}}
	for _, i := range r.Images {
		parts = append(parts, part{Type: "input_image", Detail: "auto", ImageURL: dataURL(i.MimeType, i.DataBase64)})
	}
	return parts
}

// output is what the model reads as the result of a call: the tool's own text, or an
// object with the error of one that failed (decision 25).
func output(r agent.ToolResult) string {
	if r.Err == "" && (r.Code == "" || r.Code == agent.OutcomeOK) {
		return valid(r.Result)
	}
	text := r.Err
	if text == "" {
		text = r.Result
	}
	return string(encode(struct {
		Error string `json:"error"`
	}{valid(text)}))
}

// dataURL renders data that is already base64.
func dataURL(mimeType, data string) string {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		kind = "application/octet-stream"
	}
	if strings.ContainsAny(data, "\r\n") || len(data)%4 != 0 {
		if raw, err := prompt.DecodeBase64(data); err == nil {
			data = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return "data:" + kind + ";base64," + valid(data)
}

// objects keeps the tools that are JSON objects, so that none can break the body.
func objects(tools []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range tools {
		if json.Valid(t) && bytes.HasPrefix(bytes.TrimSpace(t), []byte("{")) {
			out = append(out, validJSON(t))
		}
	}
	return out
}

// attached reports whether a function of that name is among the tools.
func attached(tools []json.RawMessage, name string) bool {
	for _, t := range tools {
		var f functionChoice
		if err := json.Unmarshal(t, &f); err == nil && f.Type == "function" && f.Name == name {
			return true
		}
	}
	return false
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
