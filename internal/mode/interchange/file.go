package interchange

import (
	"github.com/aptixhq/aptix/internal/blockyaml"
	"github.com/aptixhq/aptix/internal/mode"
)

// File returns a mode as the file that mode.Load reads it from.
func File(m mode.Mode) ([]byte, error) { return blockyaml.Marshal(m) }
