package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
)

func newWebhooks() *cobra.Command {
	cmd := &cobra.Command{Use: "webhooks", Short: "Have other systems told of what happens"}
	group(cmd)
	cmd.AddCommand(newWebhooksCreate(), newWebhooksList(), newWebhooksDelete(), newWebhooksRotate(), newWebhooksTest())
	return cmd
}

func newWebhooksCreate() *cobra.Command {
	var r remote
	var hook client.NewWebhook
	cmd := &cobra.Command{
		Use:   "create URL",
		Short: "Have an address told of what happens",
		Long: `Has an address told of what happens in the organisation, with signed messages as Standard
Webhooks says. The secret is printed once; whoever receives the messages needs it.`,
		Args: takes(1, 1, "the address"),
	}
	r.flags(cmd)
	cmd.Flags().StringSliceVar(&hook.Events, "event", nil, "turn.completed, turn.waiting, turn.failed, turn.cancelled or mode.changed; may be repeated")
	cmd.Flags().StringVar(&hook.Description, "description", "", "what it is for")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		if len(hook.Events) == 0 {
			return usageError{errors.New("name what it is told of, with --event"), cmd.CommandPath()}
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		hook.URL = args[0]
		w, err := c.CreateWebhook(cmd.Context(), hook)
		if err != nil {
			return err
		}
		return printSecret(cmd, w)
	})
	return cmd
}

// printSecret prints a webhook with its secret, which nothing prints again.
func printSecret(cmd *cobra.Command, w *client.Webhook) error {
	t := newTable(cmd.OutOrStdout())
	t.row("webhook", w.WebhookID)
	t.row("secret", w.Secret)
	if err := t.flush(); err != nil {
		return err
	}
	say(cmd.ErrOrStderr(), "The secret is not shown again.")
	return nil
}

func newWebhooksList() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List the webhooks", Args: takes(0, 0, "")}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		all, err := c.Webhooks(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), all)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("WEBHOOK", "URL", "EVENTS", "STATE", "DESCRIPTION")
		for _, w := range all {
			state := "in use"
			if w.DisabledAt != nil {
				state = "gone since " + when(*w.DisabledAt)
			}
			t.row(w.WebhookID, w.URL, strings.Join(w.Events, ","), state, w.Description)
		}
		return t.flush()
	})
	return cmd
}

func newWebhooksDelete() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "delete ID", Short: "Delete a webhook, with what was to be sent to it", Args: takes(1, 1, "the id of a webhook")}
	r.flags(cmd)
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		if err := c.DeleteWebhook(cmd.Context(), args[0]); err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "Webhook %s is deleted.", args[0])
		return nil
	})
	return cmd
}

func newWebhooksRotate() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "rotate ID", Short: "Give a webhook another secret; for a day the old one is good, too", Args: takes(1, 1, "the id of a webhook")}
	r.flags(cmd)
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		w, err := c.RotateWebhook(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printSecret(cmd, w)
	})
	return cmd
}

func newWebhooksTest() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "test ID", Short: "Send a message to a webhook", Args: takes(1, 1, "the id of a webhook")}
	r.flags(cmd)
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		d, err := c.TestWebhook(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "Message %s is on its way.", d.MessageID)
		return nil
	})
	return cmd
}
