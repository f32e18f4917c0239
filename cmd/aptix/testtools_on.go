//go:build failpoints

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// testTools are the tools of a build that is made to be killed. What they do can be
// counted from outside.
func testTools() []tool.Tool {
	return []tool.Tool{&ledger{name: "ledger_append"}, &ledger{name: "ledger_repeat", idempotent: true}, &ledger{name: "ledger_ask", approval: agent.ApprovalAlwaysAsk}}
}

// ledger writes a line for each of its runs into the file that APTIX_LEDGER names.
type ledger struct {
	name       string
	idempotent bool
	approval   agent.ApprovalPolicy
}

func (l *ledger) Definition() tool.Definition {
	return tool.Definition{Name: l.name, Description: "Writes a line.", Usage: "Use it when the plan says so.", Idempotent: l.idempotent, Approval: l.approval,
		Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}
}

func (l *ledger) Execute(_ context.Context, x *tool.ExecutionContext, _ string) (result string, err error) {
	f, err := os.OpenFile(os.Getenv("APTIX_LEDGER"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := fmt.Fprintf(f, "%s %s/%s/%s\n", l.name, x.Session, x.Turn, x.Call); err != nil {
		return "", err
	}
	return "written", f.Sync()
}
