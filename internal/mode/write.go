package mode

import "github.com/aptixhq/aptix/internal/blockyaml"

// File returns the mode as a mode file: what Load reads back as the same mode.
func (m Mode) File() ([]byte, error) { return blockyaml.Marshal(m.clone()) }
