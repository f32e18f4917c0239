package mode

import (
	"embed"
	"io/fs"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// Files are the mode files of Builtin, a starting point for one's own.
func Files() fs.FS {
	sub, err := fs.Sub(builtin, "builtin")
	if err != nil {
		return builtin // not reached: the name is a valid one
	}
	return sub
}

// Builtin returns the catalogue that a server runs with when it is given none:
// general, ddr_authoring and workflow_authoring.
func Builtin() *Catalog {
	c, err := Load(Files())
	if err != nil {
		// Not reached: the files are compiled in, and TestBuiltin fails when they
		// are faulty.
		panic(err)
	}
	return c
}
