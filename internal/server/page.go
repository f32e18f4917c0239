package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the pages
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

//go:embed page.css
var pageCSS string

// page is a rendered HTML page. It loads nothing: its
// policy allows one style sheet, the one that stands in it.
type page struct {
	body   []byte
	policy string
}

func (p page) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Security-Policy", p.policy)
	return writeBody(w, http.StatusOK, "text/html; charset=utf-8", p.body)
}

// newPage renders a template with the style sheet in it.
func newPage(name, text string, data map[string]any) (page, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return page{}, fmt.Errorf("parse page %s: %w", name, err)
	}
	data["Style"] = template.CSS(pageCSS)
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return page{}, fmt.Errorf("render page %s: %w", name, err)
	}
	hash := sha256.Sum256([]byte(pageCSS))
	return page{b.Bytes(), fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(hash[:]))}, nil
}

// manual is what the server tells about itself.
type manual struct {
	openAPI []byte
	docs    page
}

// writeManual writes the manual, which follows from the table of routes alone.
func writeManual() (*manual, error) {
	table := routes()
	doc, err := document(table)
	if err != nil {
		return nil, err
	}
	m := &manual{}
	if m.openAPI, err = renderDocument(doc); err != nil {
		return nil, err
	}
	if m.docs, err = docsPage(table, doc); err != nil {
		return nil, err
	}
	return m, nil
}

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	*huma.Operation
	Body    []string
	Answers []docsAnswer
}

type docsAnswer struct {
	Status, Description string
	Bodies              []string
}

type docsSchema struct{ Name, JSON string }

// docsPage renders the OpenAPI document for people.
func docsPage(table []route, doc *huma.OpenAPI) (page, error) {
	var ops []docsOperation
	for _, op := range operationsOf(table, doc) {
		d := docsOperation{Operation: op}
		if op.RequestBody != nil {
			d.Body = schemasOf(op.RequestBody.Content["application/json"].Schema)
		}
		for _, status := range sortedKeys(op.Responses) {
			r := op.Responses[status]
			a := docsAnswer{Status: status, Description: r.Description}
			for _, media := range sortedKeys(r.Content) {
				a.Bodies = append(a.Bodies, schemasOf(r.Content[media].Schema)...)
			}
			d.Answers = append(d.Answers, a)
		}
		ops = append(ops, d)
	}
	var schemas []docsSchema
	for _, name := range schemaNames(doc) {
		text, err := json.MarshalIndent(doc.Components.Schemas.Map()[name], "", "  ")
		if err != nil {
			return page{}, fmt.Errorf("render schema %s: %w", name, err)
		}
		schemas = append(schemas, docsSchema{name, string(text)})
	}
	return newPage("docs", docsHTML, map[string]any{"Info": doc.Info, "Operations": ops, "Schemas": schemas})
}

// schemasOf returns the names of the schemas that a body may have.
func schemasOf(s *huma.Schema) []string {
	var names []string
	if s.Ref != "" {
		names = append(names, strings.TrimPrefix(s.Ref, schemaRef))
	}
	if data, ok := s.Extensions["x-event-data"].(*huma.Schema); ok {
		names = append(names, schemasOf(data)...)
	}
	for _, one := range s.OneOf {
		names = append(names, schemasOf(one)...)
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
