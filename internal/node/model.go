package node

import (
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/demo"
)

// model returns the way to the model, with its patience.
func model(cfg config.Config) *llm.Provider {
	return llm.NewProvider(llm.ProviderConfig{
		Client:   ModelClient(cfg),
		Attempts: cfg.Limits.ModelAttempts, MaxWait: cfg.Limits.ModelWait, Concurrency: cfg.Limits.ModelConcurrency,
	})
}

// ModelClient returns the way to the model.
func ModelClient(cfg config.Config) *llm.Client {
	client := llm.Config{
		BaseURL: cfg.OpenAI.BaseURL, APIKey: cfg.OpenAI.APIKey,
		Organization: cfg.OpenAI.Organization, Project: cfg.OpenAI.Project,
	}
	if cfg.Provider == config.ProviderDemo {
		client = llm.Config{BaseURL: "http://demo/v1", Transport: demo.Transport()}
	}
	return llm.New(client)
}
