package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
)

func TestModes(t *testing.T) {
	r := newRig(t)
	var keys []string
	target := "/v1/modes?limit=1"
	for range 10 {
		l := decode[List[mode.Mode]](t, r.do(t, "GET", target, ""))
		for _, m := range l.Data {
			keys = append(keys, string(m.Key))
		}
		if !l.HasMore {
			break
		}
		target = "/v1/modes?limit=1&cursor=" + l.NextCursor
	}
	if diff := cmp.Diff(mode.Builtin().Keys(), keys); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	want, _ := mode.Builtin().Get("ddr_authoring")
	if diff := cmp.Diff(want, decode[mode.Mode](t, r.do(t, "GET", "/v1/modes/ddr_authoring", ""))); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
	r.do(t, "GET", "/v1/modes/none", "").want(t, agent.KindNotFound)
}

func TestTools(t *testing.T) {
	r := newRig(t)
	l := decode[List[Tool]](t, r.do(t, "GET", "/v1/tools", ""))
	d := noTool("first_tool").Definition()
	want := Tool{Name: "first_tool", Description: d.Description, Usage: d.Usage, Parameters: d.Parameters}
	if len(l.Data) != 2 || l.HasMore {
		t.Fatalf("got %+v", l)
	}
	if diff := cmp.Diff(want, l.Data[0]); diff != "" {
		t.Errorf("tool (-want +got):\n%s", diff)
	}
	l = decode[List[Tool]](t, r.do(t, "GET", "/v1/tools?limit=1", ""))
	l = decode[List[Tool]](t, r.do(t, "GET", "/v1/tools?cursor="+l.NextCursor, ""))
	if len(l.Data) != 1 || l.Data[0].Name != "second_tool" {
		t.Errorf("got %+v", l)
	}
}
