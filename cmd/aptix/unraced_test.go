package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// unraced is the program as readers build it, once for all tests. Where many are started and
// nothing runs beside anything, as with what documents have readers type, the race detector
// would find nothing and take most of the time.
var unraced program

type program struct {
	once sync.Once
	dir  string
	err  error
}

// folder returns the folder that the program is in, under its usual name.
func (p *program) folder(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "aptix-unraced"); p.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", filepath.Join(p.dir, "aptix"), ".").CombinedOutput(); err != nil {
			p.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.dir
}

// around returns m with the program removed at the end.
func (p *program) around(m runner) runner { return programAround{p, m} }

type runner interface{ Run() int }

type programAround struct {
	program *program
	tests   runner
}

func (r programAround) Run() int {
	defer func() { _ = os.RemoveAll(r.program.dir) }()
	return r.tests.Run()
}
