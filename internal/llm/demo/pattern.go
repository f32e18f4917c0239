package demo

import (
	"regexp"
	"sync"
)

// pattern compiles an expression when it is first used: a server with another model
// never pays for the script's.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
