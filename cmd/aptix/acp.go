package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/acp"
)

func newACP() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Be the agent of an editor, over the Agent Client Protocol",
		Long: `Speaks the Agent Client Protocol on standard input and output, for editors such as Zed,
JetBrains' and Neovim, and uses a server that runs: start 'aptix serve' first, or name
one with --url or APTIX_URL. In Zed's settings:

  "agent_servers": {"Aptix": {"type": "custom", "command": "aptix", "args": ["acp"]}}

The modes are the server's; choose one where the editor offers modes. The agent may
list, read and search files of the folder that the editor has opened; the editor asks
before a file is written or a command is run. MCP servers are configured at the
server, not in the editor.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		return acp.Serve(cmd.Context(), acp.Config{Client: c, Version: version(), Log: log}, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	return cmd
}
