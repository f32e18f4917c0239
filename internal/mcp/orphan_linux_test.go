package mcp_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/mcp"
)

// asParent makes the test binary a process that starts a server which heeds nothing.
const asParent = "APTIX_TEST_MCP_PARENT"

func parent() {
	if os.Getenv(asParent) == "" {
		return
	}
	self, err := os.Executable()
	if err == nil {
		_, err = mcp.Declared(context.Background(), mcp.ServerConfig{Name: "test", Command: self, Args: []string{"mcptest-serve", "deaf"}}, discard)
	}
	panic(err) // it is killed before
}

// TestAKilledParentTakesItsServersAlong holds row S-29 of docs/security.md.
func TestAKilledParentTakesItsServersAlong(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asParent+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := ""
	eventually(t, "the child", func() bool {
		child = childOf(t, cmd.Process.Pid)
		return child != ""
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "the end of the child", func() bool { return !runs(child) })
}

// childOf returns a child of a process, "" when it has none.
func childOf(t *testing.T, pid int) string {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		if data, err := os.ReadFile(list); err == nil && len(bytes.TrimSpace(data)) > 0 {
			return strings.Fields(string(data))[0]
		}
	}
	return ""
}
