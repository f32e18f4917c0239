package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show which version this is",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version describes the build: its module version and the commit it was built from, as
// far as the Go command has recorded them.
func version() string {
	v, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v = info.Main.Version
		}
		dirty := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
		if commit != "" {
			commit = " " + commit + dirty
		}
	}
	return fmt.Sprintf("aptix %s%s %s %s/%s", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
