package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/agent"
)

// ParseScript reads a script as it stands in a scenario file: a YAML list with one
// entry for each request that the model gets.
//
//	# one entry for each request
//	- text: "Hello"                  # an answer, streamed word by word
//	- deltas: ["Hel", "lo"]          # an answer in these pieces
//	- refusal: "I would rather not."
//	- calls:                         # function calls; beside a text, after it
//	    - id: call_1                 # left out: the next free call_1, call_2 …
//	      name: agent_change_mode
//	      arguments: '{"mode":"m","branch":false,"reason":"r"}'  # word for word
//	- items: [{type: reasoning, id: rs_1, summary: []}]  # before the others
//	  text: "After some thought …"
//	  usage: {inputTokens: 10, outputTokens: 5, totalTokens: 15}
//	- text: "cut"
//	  incomplete: max_output_tokens  # or content_filter
//	- failure: "overloaded"          # a response that failed
//	- status: 429                    # an error; without body one in the API's form
//	  body: '{"error":{"message":"slow down"}}'
//	  headers: {Retry-After: "7"}
//	- raw: "<html>not an API</html>" # the whole body
//	  headers: {Content-Type: text/html}
//	- text: "never finished"
//	  cut: 4                         # the connection breaks after so many events
//
// Unknown and doubled keys are refused, and so is an entry that contradicts itself.
// All errors are listed. An empty script is a list without entries.
func ParseScript(s string) ([]Reply, error) {
	dec := yaml.NewDecoder(strings.NewReader(s))
	dec.KnownFields(true)
	var entries []scriptEntry
	if err := dec.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the model's script: %w", err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the model's script: it must be one YAML document")
	}
	var (
		script []Reply
		errs   []error
	)
	for i, e := range entries {
		r, err := e.reply()
		if err == nil {
			err = r.check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reply %d of the script: %w", i+1, err))
		}
		script = append(script, r)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return script, nil
}

// scriptEntry is the written form of a Reply.
type scriptEntry struct {
	Items      []any             `yaml:"items"`
	Text       string            `yaml:"text"`
	Deltas     []string          `yaml:"deltas"`
	Refusal    string            `yaml:"refusal"`
	Calls      []scriptCall      `yaml:"calls"`
	Usage      scriptUsage       `yaml:"usage"`
	Incomplete string            `yaml:"incomplete"`
	Failure    string            `yaml:"failure"`
	Raw        string            `yaml:"raw"`
	Status     int               `yaml:"status"`
	Body       string            `yaml:"body"`
	Headers    map[string]string `yaml:"headers"`
	Cut        int               `yaml:"cut"`
}

type scriptCall struct {
	ID        string `yaml:"id"`
	Name      string `yaml:"name"`
	Arguments string `yaml:"arguments"`
}

type scriptUsage struct {
	InputTokens     int64 `yaml:"inputTokens"`
	OutputTokens    int64 `yaml:"outputTokens"`
	TotalTokens     int64 `yaml:"totalTokens"`
	CachedTokens    int64 `yaml:"cachedTokens"`
	ReasoningTokens int64 `yaml:"reasoningTokens"`
}

func (e scriptEntry) reply() (Reply, error) {
	r := Reply{
		Text: e.Text, Deltas: e.Deltas, Refusal: e.Refusal, Usage: agent.Usage(e.Usage), Incomplete: e.Incomplete, Failure: e.Failure,
		Raw: e.Raw, Status: e.Status, Body: e.Body, Headers: e.Headers, Cut: e.Cut,
	}
	for _, c := range e.Calls {
		r.Calls = append(r.Calls, Call(c))
	}
	for i, item := range e.Items {
		raw, err := json.Marshal(item)
		if err != nil {
			return r, fmt.Errorf("items[%d] is not JSON: %w", i, err)
		}
		r.Items = append(r.Items, raw)
	}
	return r, nil
}
