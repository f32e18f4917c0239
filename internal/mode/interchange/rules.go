package interchange

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

const (
	// maxFile bounds a file that is imported, maxRules the rules of one mode together: a
	// mode file may not be larger either.
	maxFile  = 8 << 20
	maxRules = 256 << 10
)

// rulesOf reads the rules of a mode, which lie beside the file that defines it: the folder
// .roo/rules-SLUG, all files below it in their order, or else the file .roorules-SLUG.
func rulesOf(fsys fs.FS, slug string, n *notes) []string {
	if slug == "" || strings.ContainsAny(slug, `/\`) {
		return nil
	}
	for _, place := range []string{".roo/rules-" + slug, ".kilocode/rules-" + slug, ".roorules-" + slug, ".kilocoderules-" + slug} {
		if rules := rulesIn(fsys, place, n); len(rules) > 0 {
			return rules
		}
	}
	return nil
}

func rulesIn(fsys fs.FS, place string, n *notes) []string {
	var rules []string
	size := 0
	err := fs.WalkDir(fsys, place, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return nil
		}
		data, err := readFile(fsys, name, maxRules)
		if err != nil {
			n.add(LeftOut, "rules %s: %v", name, err)
			return nil
		}
		text, err := decode(data)
		if err != nil {
			n.add(LeftOut, "rules %s: %v", name, err)
			return nil
		}
		if text = n.clean("rules "+name, text); text == "" {
			return nil
		}
		if size += len(text); size > maxRules {
			n.add(LeftOut, "rules %s and those after it: together they are larger than %d KiB", name, maxRules>>10)
			return fs.SkipAll
		}
		rules = append(rules, text)
		return nil
	})
	if err != nil {
		n.add(LeftOut, "rules in %s: %v", place, err)
	}
	return rules
}

// readFile reads a regular file of a bounded size.
func readFile(fsys fs.FS, name string, most int64) (_ []byte, err error) {
	// A link may lead to a pipe, and opening one waits for a writer.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, cause(err)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	in, err := fsys.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, cause(err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("it is larger than %d KiB", most>>10)
	}
	return data, nil
}

// cause leaves out the path, which stands beside it already.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// base returns the name of a file without its folder and the endings of agent files.
func base(name string) string {
	name = path.Base(name)
	for _, ending := range agentEndings {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}
