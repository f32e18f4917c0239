package invariants

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// register is a session as a register: its mode, and how often that was changed.
type register struct {
	Mode    string
	Changes int
}

// ModeAccess is one request to it: a switch to Mode, or a read when that is empty. A turn
// reads, and its answer tells the mode alone.
type ModeAccess struct{ Mode string }

// ModeSeen is what a request was told; Changes is -1 where the answer does not tell it, and
// Mode empty where it tells nothing.
type ModeSeen struct {
	Mode    string
	Changes int
}

// ModeRegister is what porcupine holds the accesses to a session's mode against: each sees
// what the one before it left.
var ModeRegister = porcupine.Model{
	Init: func() any { return register{Mode: "general"} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(register), input.(ModeAccess), output.(ModeSeen)
		if in.Mode != "" && in.Mode != s.Mode {
			s = register{in.Mode, s.Changes + 1}
		}
		return (out.Mode == "" || out.Mode == s.Mode) && (out.Changes == -1 || out.Changes == s.Changes), s
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v → %+v", input, output)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}
