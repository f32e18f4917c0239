package store

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// MayRepeat reports whether the steps may repeat a content of their turn. Only a request
// does, and only one whose new items are large; for all others a keeper need not look
// for the contents.
func MayRepeat(steps []agent.Step) bool {
	size := 0
	for _, step := range steps {
		if step.Asked != nil {
			for _, item := range step.Asked.NewItems {
				size += len(item)
			}
		}
	}
	return size >= MinCut
}

// Mender puts contents back into stored steps. It reads each of them once.
type Mender struct {
	read  func(sha256 string) ([]byte, error)
	found map[string][]byte
}

// NewMender returns a mender that finds contents by their hash.
func NewMender(read func(sha256 string) ([]byte, error)) *Mender {
	return &Mender{read: read, found: map[string][]byte{}}
}

// Step puts the contents back into both parts of a stored step.
func (m *Mender) Step(data, items, cuts []byte) (wholeData, wholeItems []byte, err error) {
	h, err := ReadHoles(cuts)
	if err != nil {
		return nil, nil, err
	}
	if data, err = Mend(data, h.Data, m.content); err != nil {
		return nil, nil, err
	}
	items, err = Mend(items, h.Items, m.content)
	return data, items, err
}

// Items is Step for one that is only read for its items.
func (m *Mender) Items(items, cuts []byte) ([]byte, error) {
	h, err := ReadHoles(cuts)
	if err != nil {
		return nil, err
	}
	return Mend(items, h.Items, m.content)
}

func (m *Mender) content(sha256 string) ([]byte, error) {
	if data, ok := m.found[sha256]; ok {
		return data, nil
	}
	data, err := m.read(sha256)
	if err != nil {
		return nil, fmt.Errorf("content %s: %w", sha256, err)
	}
	m.found[sha256] = data
	return data, nil
}
