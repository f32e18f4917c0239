package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"

	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/tool"
)

// Catalog is where the modes come from: the IAgentModeCatalogService of TUL-010 §2.
type Catalog interface {
	GetAllModes(ctx context.Context) ([]mode.Summary, error)
}

//go:embed list_modes.md
var listModesUsage string

// failNoCatalog is all that the model learns of a catalogue that fails.
const failNoCatalog failure = "agent_list_modes could not read the mode catalog. Go on without the list."

// tagListModesFailed is the tag under which operators find what went wrong.
const tagListModesFailed = "[AgentListModesTool_Execute__Exception]"

type listModes struct {
	definition tool.Definition
	args       tool.Arguments[listModesArgs]
	catalog    Catalog
	log        *slog.Logger
}

// listModesArgs are the arguments of TUL-010 §3.2.
type listModesArgs struct {
	IncludeExamples bool `json:"includeExamples,omitempty" jsonschema:"When true, each mode comes with example utterances, where it has any. When false or omitted, the lists of examples are empty."`
}

// listModesResult is the payload of TUL-010 §3.3.
type listModesResult struct {
	Modes []mode.Summary `json:"modes"`
}

// NewListModes returns agent_list_modes (TUL-010), which shows the catalogue of modes
// and changes nothing. Both dependencies are required.
func NewListModes(c Catalog, log *slog.Logger) (tool.Tool, error) {
	if c == nil || log == nil {
		return nil, errors.New("agent_list_modes needs a catalogue of modes and a logger")
	}
	args, err := tool.ArgumentsOf[listModesArgs]()
	if err != nil {
		return nil, fmt.Errorf("agent_list_modes: %w", err)
	}
	return &listModes{
		definition: tool.Definition{
			Name:        tool.ListModes,
			Description: "Lists all agent modes with their keys, names and descriptions. Read-only: it does not change the current mode.",
			Usage:       listModesUsage,
			Parameters:  args.Parameters,
			Idempotent:  true,
		},
		args:    args,
		catalog: c,
		log:     log,
	}, nil
}

func (t *listModes) Definition() tool.Definition { return t.definition }

// Execute returns the modes as JSON; blank arguments mean the defaults (decision 33).
// Any failure is logged, and nothing escapes but an error (TUL-010 §4).
func (t *listModes) Execute(ctx context.Context, ec *tool.ExecutionContext, argumentsJSON string) (string, error) {
	args, err := t.args.Decode(argumentsJSON)
	if err != nil {
		t.failed(ctx, ec, err)
		return "", fmt.Errorf("agent_list_modes: %w", err)
	}
	result, err := t.list(ctx, args)
	if err != nil {
		t.failed(ctx, ec, err)
		return "", failNoCatalog
	}
	return result, nil
}

// list reads the catalogue and writes it as JSON without a null in it (decision 33).
func (t *listModes) list(ctx context.Context, args listModesArgs) (_ string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	all, err := t.catalog.GetAllModes(ctx)
	if err != nil {
		return "", err
	}
	if all == nil {
		return "", errors.New("the catalogue returned nothing")
	}
	// What the catalogue returned stays its own: the list is a copy.
	modes := make([]mode.Summary, 0, len(all))
	for _, m := range all {
		if !args.IncludeExamples {
			m.ExampleUtterances = nil
		}
		modes = append(modes, m)
	}
	// This writer puts [] for a nil slice, and refuses text that is not UTF-8.
	b, err := json.Marshal(listModesResult{Modes: modes}, json.FormatNilSliceAsNull(false))
	return string(b), err
}

func (t *listModes) failed(ctx context.Context, ec *tool.ExecutionContext, err error) {
	t.log.ErrorContext(ctx, "agent_list_modes failed",
		slog.String("tag", tagListModesFailed), slog.Any("call", ec), slog.Any("error", err))
}
