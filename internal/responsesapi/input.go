package responsesapi

import (
	"encoding/base64"
	"fmt"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/fence"
)

// item is one item of the input: a message, a call that the model made, or the result
// of one.
type item struct {
	kind string // message, function_call or function_call_output
	role string
	text string // of a message; of a call its arguments, of a result its output
	call agent.CallID
	name string

	images []agent.Image
	files  []agent.Artifact
}

const (
	kindMessage = "message"
	kindCall    = "function_call"
	kindOutput  = "function_call_output"
)

// readInput reads the input, a text or a list of items.
func readInput(raw jsontext.Value) ([]item, error) {
	if raw == nil {
		return nil, refuse("input", codeMissing, "Missing required parameter: 'input'.")
	}
	if raw.Kind() == '"' {
		return []item{{kind: kindMessage, role: "user", text: text(raw)}}, nil
	}
	var list []jsontext.Value
	if err := jsonv2.Unmarshal(raw, &list); err != nil {
		return nil, refuse("input", codeInvalidValue, "'input' must be a text or a list of items.")
	}
	var out []item
	for i, v := range list {
		at := fmt.Sprintf("input[%d]", i)
		it, err := readItem(at, v)
		if err != nil {
			return nil, err
		}
		if it.kind != "" {
			out = append(out, it)
		}
	}
	return out, nil
}

func readItem(at string, v jsontext.Value) (item, error) {
	var in struct {
		Type      string         `json:"type"`
		Role      string         `json:"role"`
		Content   jsontext.Value `json:"content"`
		CallID    string         `json:"call_id"`
		Name      string         `json:"name"`
		Arguments string         `json:"arguments"`
		Output    jsontext.Value `json:"output"`
	}
	if err := jsonv2.Unmarshal(v, &in); err != nil {
		return item{}, refuse(at, codeInvalidValue, "The item at '%s' cannot be read: %v.", at, err)
	}
	if in.Type == "" && in.Role != "" {
		in.Type = kindMessage
	}
	switch in.Type {
	case kindMessage:
		switch in.Role {
		case "user", "assistant", "system", "developer":
		default:
			return item{}, refuse(at+".role", codeInvalidValue, "The role %q is not one of user, assistant, system and developer.", clip(in.Role, 40))
		}
		it := item{kind: kindMessage, role: in.Role}
		return it, it.readContent(at+".content", in.Content)
	case kindCall, kindOutput:
		if in.CallID == "" {
			return item{}, refuse(at+".call_id", codeMissing, "Missing required parameter: '%s.call_id'.", at)
		}
		it := item{kind: in.Type, call: agent.CallID(in.CallID), name: in.Name, text: in.Arguments}
		if in.Type == kindCall {
			return it, nil
		}
		out := item{}
		if err := out.readContent(at+".output", in.Output); err != nil {
			return item{}, err
		}
		if len(out.images)+len(out.files) > 0 {
			return item{}, refuse(at+".output", codeUnsupportedValue, "The output of a function is text here; images and files in it are not available.")
		}
		it.text = out.text
		return it, nil
	case "reasoning":
		// The transcript that the server keeps has it already.
		return item{}, nil
	}
	return item{}, refuse(at+".type", codeUnsupportedValue, "Unsupported item type: %q. Messages, function_call and function_call_output are taken.", clip(in.Type, 40))
}

// readContent reads a text or a list of parts.
func (it *item) readContent(at string, v jsontext.Value) error {
	if v.Kind() == '"' {
		it.text = text(v)
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL string `json:"image_url"`
		FileID   string `json:"file_id"`
		FileURL  string `json:"file_url"`
		FileData string `json:"file_data"`
		Filename string `json:"filename"`
	}
	if v.Kind() != '[' || jsonv2.Unmarshal(v, &parts) != nil {
		return refuse(at, codeInvalidValue, "'%s' must be a text or a list of content parts.", at)
	}
	var texts []string
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		if p.FileID != "" {
			return refuse(at+".file_id", codeUnsupported, "There are no uploaded files here. Send the contents: as a data URL in image_url, or in file_data.")
		}
		switch p.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "input_image":
			mediaType, data, ok := dataURL(p.ImageURL)
			if !ok {
				return refuse(at+".image_url", codeUnsupportedValue, "An image must be a data URL with base64; the server fetches nothing.")
			}
			it.images = append(it.images, agent.Image{MimeType: mediaType, DataBase64: data})
		case "input_file":
			if p.FileURL != "" || p.FileData == "" {
				return refuse(at+".file_data", codeUnsupportedValue, "A file must come in file_data, as base64; the server fetches nothing.")
			}
			it.files = append(it.files, file(p.Filename, p.FileData))
		default:
			return refuse(at+".type", codeUnsupportedValue, "Unsupported content type: %q.", clip(p.Type, 40))
		}
	}
	it.text = strings.Join(texts, "\n")
	return nil
}

// dataURL takes a data URL with base64 apart.
func dataURL(s string) (mediaType, data string, ok bool) {
	rest, found := strings.CutPrefix(s, "data:")
	head, data, comma := strings.Cut(rest, ",")
	head, encoded := strings.CutSuffix(head, ";base64")
	mediaType, _, err := mime.ParseMediaType(head)
	if !found || !comma || !encoded || err != nil {
		return "", "", false
	}
	return mediaType, data, true
}

// file turns an input_file into an artifact; a text is shown to the model as text. Its
// data may be a data URL or bare base64. Wrong base64 is left for the contract to find.
func file(name, data string) agent.Artifact {
	mediaType, bare, ok := dataURL(data)
	if !ok {
		bare = data
	}
	if name == "" {
		name = "file"
	}
	if mediaType == "" || mediaType == "application/octet-stream" {
		if guess, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name))); err == nil {
			mediaType = guess
		}
	}
	a := agent.Artifact{RelativePath: name, FileName: path.Base(name), Origin: "user", MimeType: mediaType, Encoding: "base64", Contents: bare}
	raw, err := base64.StdEncoding.DecodeString(bare)
	if err == nil && strings.HasPrefix(mediaType, "text/") && utf8.Valid(raw) {
		a.Encoding, a.Contents = "utf8", string(raw)
	}
	return a
}

// said is what the messages of an input say, as a turn takes it.
type said struct {
	instruction string
	system      []string // what system and developer messages add to the prompt
	images      []agent.Image
	files       []agent.Artifact
}

// gather reads the input as the request of a turn. One message of the user is the
// instruction as it is. A client that keeps the conversation itself sends all of it:
// then the instruction is the whole, each message under the name of who said it.
func gather(input []item) said {
	var s said
	var spoken []item
	for _, it := range input {
		s.images = append(s.images, it.images...)
		s.files = append(s.files, it.files...)
		if it.kind == kindMessage && (it.role == "system" || it.role == "developer") {
			s.system = append(s.system, it.text)
			continue
		}
		spoken = append(spoken, it)
	}
	for i := range s.images {
		s.images[i].ID = fmt.Sprintf("image_%d", i+1)
	}
	if len(spoken) == 1 && spoken[0].kind == kindMessage && spoken[0].role == "user" {
		s.instruction = spoken[0].text
		return s
	}
	var b strings.Builder
	for i, it := range spoken {
		if i > 0 {
			b.WriteString("\n\n")
		}
		switch it.kind {
		case kindCall:
			b.WriteString("Call of a tool\n")
			fence.Field(&b, "name", it.name)
			fence.Field(&b, "id", string(it.call))
		case kindOutput:
			b.WriteString("Result of a tool\n")
			fence.Field(&b, "id", string(it.call))
		default:
			fence.Field(&b, "from", it.role)
		}
		fence.Text(&b, "", it.text)
	}
	if b.Len() > 0 {
		s.instruction = "The conversation so far; answer what comes last.\n\n" + b.String()
	}
	return s
}
