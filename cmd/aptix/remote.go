package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/terminal"
)

// remote are the flags of a command that talks to a server.
type remote struct{ url string }

func (r *remote) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.url, "url", "", "address of the server (default "+client.DefaultURL+")")
}

// client returns a client of the server that flags and environment name.
func (r *remote) client(cmd *cobra.Command) (*client.Client, error) {
	cfg, err := config.LoadClient(r.url, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: cfg.URL, APIKey: cfg.APIKey.Reveal(), UserAgent: "aptix-cli"})
	if err != nil {
		return nil, usageError{err, cmd.CommandPath()}
	}
	return c, nil
}

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table prints rows in columns. Cells may hold text of others.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			_, _ = io.WriteString(t.w, "\t")
		}
		_, _ = io.WriteString(t.w, oneLine(fmt.Sprint(c)))
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t table) flush() error { return t.w.Flush() }

// oneLine makes a text fit into a cell.
func oneLine(s string) string {
	out := []rune(terminal.Strip(s))
	for i, r := range out {
		if r == '\n' || r == '\t' {
			out[i] = ' '
		}
	}
	return string(out)
}

// when renders a time for people.
func when(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// counted says how many of a thing there are.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
