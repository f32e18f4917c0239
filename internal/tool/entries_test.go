package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/tool"
)

func TestMerge_EntriesMayBePatternsAndGroups(t *testing.T) {
	r := registry(t, tool.ChangeMode, tool.ListModes, "files__list", "files__read", "git__read", "git__push")
	for name, entries := range map[string][]string{"reading": {"*__read", tool.ListModes}, "pushing": {"git__push"}} {
		if err := r.Group(name, entries...); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what     string
		entries  []string
		want     []string
		warnings []string
	}{
		{"a pattern, in the order of the server", []string{"files__*"}, []string{"files__list", "files__read"}, nil},
		{"a name that a pattern matches too", []string{"files__read", "files__*"}, []string{"files__read", "files__list"}, nil},
		{"a group", []string{"group:reading"}, []string{"files__read", "git__read", tool.ListModes}, nil},
		{"groups and names", []string{"group:pushing", "group:reading", "files__list"}, []string{"git__push", "files__read", "git__read", tool.ListModes, "files__list"}, nil},
		{"a pattern that matches nothing", []string{"none__*"}, nil, nil},
		{"a group that is not there", []string{"group:writing"}, nil, []string{`the mode lists tool group "writing", which the configuration does not have`}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			got := tool.Merge(nil, tt.entries, r)
			if d := cmp.Diff(append(tt.want, tool.ChangeMode), serverNames(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if d := cmp.Diff(tt.warnings, got.Warnings); d != "" {
				t.Errorf("warnings (-want +got)\n%s", d)
			}
		})
	}
	all := tool.Merge(nil, []string{"*"}, r)
	if d := cmp.Diff(r.Names(), serverNames(all)); d != "" {
		t.Errorf("everything (-want +got)\n%s", d)
	}
}

func TestGroup_Refusals(t *testing.T) {
	r := registry(t, tool.ChangeMode)
	if err := r.Group("taken", "x"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"Reading Things", []string{"x"}, "the name of a group matches"},
		{"taken", []string{"x"}, "there twice"},
		{"empty", nil, "list its tools"},
		{"nested", []string{"group:taken"}, "cannot hold a group"},
		{"broken", []string{"x["}, "is not a pattern"},
	} {
		if err := r.Group(tt.name, tt.entries...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if d := cmp.Diff([]string{tool.ChangeMode, "group:taken"}, r.Entries()); d != "" {
		t.Errorf("entries (-want +got)\n%s", d)
	}
}

func TestWithdraw_LeavesFrozenSetsAsTheyAre(t *testing.T) {
	r := registry(t, tool.ChangeMode, "a", "b")
	before := tool.Merge(nil, []string{"a", "b"}, r)
	count := r.Changes()
	r.Withdraw("a", "its definition has changed")
	if r.Changes() == count {
		t.Error("a withdrawal does not count as a change")
	}
	after := tool.Merge(nil, []string{"a", "b"}, r)
	if d := cmp.Diff([]string{"b", tool.ChangeMode}, serverNames(after)); d != "" {
		t.Errorf("merged after it (-want +got)\n%s", d)
	}
	if d := cmp.Diff([]string{`tool "a" is withdrawn: its definition has changed`}, after.Warnings); d != "" {
		t.Errorf("warnings (-want +got)\n%s", d)
	}
	if frozen := tool.ParseSet(before.JSON, before.ServerNames(), r); !frozen.IsServer("a") {
		t.Error("a turn that had the tool already lost it")
	}
	r.Restore("a")
	if got := tool.Merge(nil, []string{"a", "b"}, r); string(got.JSON) != string(before.JSON) {
		t.Errorf("after its return: %s", got.JSON)
	}
}

// A server tool that is gone after a restart is nobody's: what a model calls under its
// name never goes to the client.
func TestParseSet_AServerToolThatIsGoneIsNotTheClients(t *testing.T) {
	frozen := tool.Merge(json.RawMessage("["+clientTool("mine")+"]"), []string{"gone", "changed"}, registry(t, tool.ChangeMode, "gone", "changed"))
	again := tool.ParseSet(frozen.JSON, frozen.ServerNames(), registry(t, tool.ChangeMode, "changed", "mine"))
	if again.IsClient("gone") || again.IsServer("gone") {
		t.Error("gone is somebody's")
	}
	if !again.IsServer("changed") || !again.IsClient("mine") || again.IsServer("mine") {
		t.Errorf("server: %v, mine is the client's: %v", serverNames(again), again.IsClient("mine"))
	}
}

func TestReserve_KeepsAPrefixForTheServer(t *testing.T) {
	r := registry(t, tool.ChangeMode)
	r.Reserve("my-files__")
	for name, want := range map[string]bool{"my-files__x": true, "My_Files__x": true, "my-files": false, "x__my-files__x": false} {
		if got := r.Reserved(name); got != want {
			t.Errorf("%s is reserved: %v, want %v", name, got, want)
		}
	}
}

func TestAmong_IsTheSameForAllSetsWithinIt(t *testing.T) {
	r := registry(t, tool.ChangeMode, "a", "b", "c")
	client := json.RawMessage("[" + clientTool("mine") + "]")
	shared := []string{"a", "b"}
	one, ok1 := tool.Merge(client, []string{"b"}, r).Among(shared, r)
	two, ok2 := tool.Merge(client, []string{"a"}, r).Among(shared, r)
	if !ok1 || !ok2 {
		t.Fatal("the sets are within the list")
	}
	if d := cmp.Diff([]json.RawMessage(one), two); d != "" {
		t.Errorf("the lists differ\n%s", d)
	}
	if _, ok := tool.Merge(client, []string{"c"}, r).Among(shared, r); ok {
		t.Error("c is not in the list")
	}
}
