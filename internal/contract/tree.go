package contract

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
)

// node is one JSON value of a body.
type node struct {
	kind jsontext.Kind // KindFalse, KindTrue, KindNull, or the begin of what it is
	// literal is the decoded string, or a number as it was written.
	literal  string
	members  []member // of an object, in the order written, each name once
	elements []node   // of an array
	raw      []byte   // of an object or array, its exact bytes
}

type member struct {
	name  string
	value node
}

// errStop ends a parse whose fault is already listed.
var errStop = errors.New("over a limit")

// parser builds the tree of a body within its limits.
type parser struct {
	body     []byte
	lim      Limits
	dec      *jsontext.Decoder
	faults   *violations
	depth    int
	members  int
	elements int
}

// open parses a body and returns its object for reading. rule is the rule that a body
// breaks which is JSON but no object.
func open(body []byte, lim Limits, rule string) (*object, error) {
	if int64(len(body)) > lim.Body {
		return nil, agent.Errorf(agent.KindPayloadTooLarge, "The body has %d bytes; at most %d are taken. Send fewer or smaller artifacts and images.", len(body), lim.Body)
	}
	faults := &violations{}
	p := &parser{
		body: body,
		lim:  lim,
		// The parser looks for duplicate names itself: it lists them all and goes on.
		dec:    jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true)),
		faults: faults,
	}
	root, err := p.document()
	if err != nil {
		return nil, err
	}
	o, ok := value{node: root, present: true, faults: faults}.object(rule)
	if !ok {
		return nil, faults.err()
	}
	return o, nil
}

// document parses the one value that a body must be.
func (p *parser) document() (node, error) {
	root, err := p.value()
	if err == nil {
		_, err = p.dec.ReadToken()
		switch {
		case err == io.EOF:
			return root, nil
		case err == nil:
			err = errors.New("more data after the end of the request")
		}
	}
	if err == errStop {
		return node{}, p.faults.err()
	}
	return node{}, p.malformed(err)
}

// malformed replaces what was found so far: where the syntax is broken, the tree
// before it cannot be trusted either.
func (p *parser) malformed(err error) error {
	offset := p.dec.InputOffset()
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		offset, err = s.ByteOffset, s.Err
	}
	only := &violations{}
	switch {
	case len(bytes.TrimSpace(p.body)) == 0:
		only.add("", ruleJSON, "The body is empty; send a JSON object.")
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		only.add("", ruleJSON, "The JSON ends too early, at byte %d.", offset)
	default:
		only.add("", ruleJSON, "The body is not valid JSON at byte %d: %s.", offset, strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return only.err()
}

func (p *parser) value() (node, error) {
	if p.dec.PeekKind() == jsontext.KindString {
		return p.text()
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{kind: tok.Kind()}
	switch n.kind {
	case jsontext.KindNumber:
		n.literal = tok.String()
		if _, err := strconv.ParseFloat(n.literal, 64); err != nil {
			p.fault(ruleJSON, "The number is out of range.")
		}
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		start := p.dec.InputOffset() - 1
		if p.depth++; p.depth > p.lim.Depth {
			p.fault(ruleLimits, "Objects and arrays are nested more than %d deep.", p.lim.Depth)
			return node{}, errStop
		}
		if n.kind == jsontext.KindBeginObject {
			n.members, err = p.object()
		} else {
			n.elements, err = p.array()
		}
		if err != nil {
			return node{}, err
		}
		p.depth--
		n.raw = p.body[start:p.dec.InputOffset()]
	}
	return n, nil
}

// object parses what follows a left brace, up to and with the right one.
func (p *parser) object() ([]member, error) {
	var members []member
	seen := map[string]bool{}
	for p.dec.PeekKind() != jsontext.KindEndObject {
		tok, err := p.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		if p.members++; p.members > p.lim.Keys {
			p.fault(ruleLimits, "The body has more than %d members.", p.lim.Keys)
			return nil, errStop
		}
		p.checkText(name)
		if seen[name] {
			p.fault(ruleJSON, "The member %s is here twice; keep one of them.", quote(name))
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if !seen[name] {
			members = append(members, member{name, v})
		}
		seen[name] = true
	}
	_, err := p.dec.ReadToken()
	return members, err
}

// array parses what follows a left bracket, up to and with the right one.
func (p *parser) array() ([]node, error) {
	var elements []node
	for p.dec.PeekKind() != jsontext.KindEndArray {
		if p.elements++; p.elements > p.lim.Keys {
			p.fault(ruleLimits, "The arrays of the body have more than %d elements.", p.lim.Keys)
			return nil, errStop
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	_, err := p.dec.ReadToken()
	return elements, err
}

// text reads a string. A token of one with escapes would be put together in a buffer that grows,
// at several times the size of a large one.
func (p *parser) text() (node, error) {
	raw, err := p.dec.ReadValue()
	if err != nil {
		return node{}, err
	}
	n := node{kind: jsontext.KindString}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		n.literal = string(inner)
	} else if b, err := jsontext.AppendUnquote(nil, raw); err != nil {
		return node{}, err
	} else {
		n.literal = string(b)
	}
	p.checkText(n.literal)
	return n, nil
}

// checkText refuses NUL, which JSON can escape and no SQL text column can hold.
func (p *parser) checkText(s string) {
	if strings.IndexByte(s, 0) >= 0 {
		p.fault(ruleJSON, "The text holds a NUL character; send binary contents as base64.")
	}
}

// fault adds a violation at the value that was read last.
func (p *parser) fault(rule, format string, args ...any) {
	if p.faults.full() { // making the pointer is what costs
		p.faults.more++
		return
	}
	p.faults.add(string(p.dec.StackPointer()), rule, format, args...)
}
