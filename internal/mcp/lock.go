package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LockFile is what the file of approved definitions is called. It stands beside the
// configuration file, and belongs with it under version control.
const LockFile = "aptix.mcp.lock"

// maxLock bounds that file.
const maxLock = 32 << 20

const lockVersion = 1

// Lock holds the definitions that somebody approved, by server.
type Lock map[string][]Definition

type lockFile struct {
	Version int                   `json:"version"`
	Servers map[string]lockServer `json:"servers"`
}

type lockServer struct {
	Tools []Definition `json:"tools"`
}

// ReadLock reads the file; without one nothing is approved. A definition that was changed
// by hand is an error: its hash tells.
func ReadLock(name string) (Lock, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxLock {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxLock)
	}
	lock, err := parseLock(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; 'aptix mcp approve' writes it anew", name, err)
	}
	return lock, nil
}

func parseLock(b []byte) (Lock, error) {
	var f lockFile
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if f.Version != lockVersion {
		return nil, fmt.Errorf("it is of version %d, and this is version %d", f.Version, lockVersion)
	}
	lock := Lock{}
	for server, s := range f.Servers {
		for _, d := range s.Tools {
			// As it was hashed, whatever the file is indented by.
			var compact bytes.Buffer
			if err := json.Compact(&compact, d.InputSchema); err != nil {
				return nil, fmt.Errorf("tool %q of server %q has no schema", d.Name, server)
			}
			d.InputSchema = compact.Bytes()
			if d.SHA256 != d.hash() {
				return nil, fmt.Errorf("tool %q of server %q is not as it was approved", d.Name, server)
			}
			lock[server] = append(lock[server], d)
		}
	}
	return lock, nil
}

// Write replaces the file, whole or not at all.
func (l Lock) Write(name string) (err error) {
	f := lockFile{Version: lockVersion, Servers: map[string]lockServer{}}
	for server, tools := range l {
		tools = slices.Clone(tools)
		slices.SortFunc(tools, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
		f.Servers[server] = lockServer{tools}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(name), ".aptix-mcp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	_, err = out.Write(b.Bytes())
	if err := errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), name)
}

// Change is how a tool that a server declares differs from what was approved.
type Change struct {
	// Name is the server's own name of the tool.
	Name string
	// Approved and Declared are nil for a tool that is new, or gone.
	Approved *Definition
	Declared *Definition
}

// Compare returns what differs, by name; nothing when all is as it was approved.
func Compare(approved, declared []Definition) []Change {
	var out []Change
	for i, d := range declared {
		switch a := find(approved, d.Name); {
		case a == nil:
			out = append(out, Change{Name: d.Name, Declared: &declared[i]})
		case a.SHA256 != d.SHA256:
			out = append(out, Change{Name: d.Name, Approved: a, Declared: &declared[i]})
		}
	}
	for i, a := range approved {
		if find(declared, a.Name) == nil {
			out = append(out, Change{Name: a.Name, Approved: &approved[i]})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func find(definitions []Definition, name string) *Definition {
	i := slices.IndexFunc(definitions, func(d Definition) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &definitions[i]
}
