package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// connectors are the names of the standard library with which a connection can be made
// past internal/outbound, by import path.
var connectors = map[string][]string{
	"net/http": {"DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "Transport"},
	"net": {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP", "DialUnix", "Dialer",
		"DefaultResolver"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
}

// connecting returns where the Go files of a tree name a connector, as file: name. Tests
// are left out.
func connecting(tree fs.FS) ([]string, error) {
	var out []string
	fset := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, data, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, found := range connectorsIn(f) {
			out = append(out, name+": "+found)
		}
		return nil
	})
	return out, err
}

// connectorsIn returns the connectors that a file names, and the clients that it builds
// without a transport.
func connectorsIn(f *ast.File) []string {
	imported := map[string]string{} // path by the name that it has here
	for _, imp := range f.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if _, watched := connectors[p]; err != nil || !watched {
			continue
		}
		as := path.Base(p)
		if imp.Name != nil {
			as = imp.Name.Name
		}
		imported[as] = p
	}
	var out []string
	for n := range ast.Preorder(f) {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(connectors[imported[x.Name]], s.Sel.Name) {
				out = append(out, imported[x.Name]+"."+s.Sel.Name)
			}
		}
		if bareClient(n, imported) {
			out = append(out, "net/http.Client without a transport")
		}
	}
	return out
}

// bareClient reports whether a node makes a client that connects in the default way.
func bareClient(n ast.Node, imported map[string]string) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		return isClient(n.Type, imported) && !hasTransport(n)
	case *ast.ValueSpec:
		return isClient(n.Type, imported)
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		return ok && name.Name == "new" && len(n.Args) == 1 && isClient(n.Args[0], imported)
	}
	return false
}

func isClient(typ ast.Expr, imported map[string]string) bool {
	s, ok := typ.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && imported[x.Name] == "net/http" && s.Sel.Name == "Client"
}

func hasTransport(lit *ast.CompositeLit) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := kv.Key.(*ast.Ident)
		return ok && key.Name == "Transport"
	})
}
