package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/node"
)

// memoryTime bounds the two model calls of doctor --probe together. A local server may
// have to load the model first.
const memoryTime = 2 * time.Minute

// checkContinuity says how conversations go on and, if probe, whether the provider's
// memory is as that needs it. A provider that is relied on and does not remember is an
// error: its conversations would lose what was said.
func checkContinuity(ctx context.Context, cfg config.Config, probe bool) (string, error) {
	now := string(cfg.Continuity) + " sends the transcript with each request"
	if cfg.Chain() {
		now = string(cfg.Continuity) + " relies on the provider's memory"
	}
	switch {
	case cfg.Provider == config.ProviderDemo:
		return now, nil
	case !probe:
		return now + "; 'aptix doctor --probe' tests that memory with two small model calls", nil
	}
	client := node.ModelClient(cfg)
	defer client.Close()
	memory, err := llm.MemoryProbe{Client: client, Model: cfg.Models()[0], OmitStore: !cfg.Capabilities().Store}.Run(ctx)
	if err != nil {
		return "", fmt.Errorf("%s; the provider's memory could not be tested: %w", now, err)
	}
	found := recalls(memory) + "; " + now
	remembers := memory.Recall == llm.RecallRemembers
	switch {
	case remembers == cfg.Chain():
		return found, nil
	case remembers && cfg.Continuity == config.ContinuityReplay:
		return found + ", as was asked for", nil
	case remembers:
		return found + "; to send only what is new, set openai.capabilities.stateful to true", nil
	case cfg.Continuity == config.ContinuityProvider:
		return "", errors.New(found + "; set APTIX_CONTINUITY=replay")
	}
	return "", errors.New(found + "; set openai.capabilities.stateful to false")
}

// recalls says what a probe found out.
func recalls(m llm.Memory) string {
	switch m.Recall {
	case llm.RecallRemembers:
		return "the provider remembers"
	case llm.RecallForgets:
		return "the provider accepts previous_response_id and forgets"
	}
	return fmt.Sprintf("the provider refuses previous_response_id (status %d)", m.Status)
}
