package llm

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// flatEvents are objects, and whether they are read in the short way.
var flatEvents = []struct {
	data string
	flat bool
}{
	{`{}`, true},
	{`{"type":"response.output_text.delta","sequence_number":7,"output_index":0,"delta":" wörd","logprobs":[]}`, true},
	{`{"type":"a","type":"b","delta":null,"x":true,"y":false,"output_index":10}`, true},
	{`{"":""}`, true},
	{`{"type":7}`, false}, // which is refused
	{`{"delta":"a\"b"}`, false},
	{`{"delta":"a` + "\n" + `b"}`, false},
	{`{"d\u0065lta":"a"}`, false},
	{`{"delta":"a"} `, false},
	{`{"delta": "a"}`, false},
	{`{"delta":"a",}`, false},
	{`{"delta":"a"}}`, false},
	{`{"delta":"a"`, false},
	{`{"delta":"a`, false},
	{`{"delta":`, false},
	{`{"delta":}`, false},
	{`{"delta"`, false},
	{`{"delta"}`, false},
	{`{"delta";"a"}`, false},
	{`{,}`, false},
	{`{`, false},
	{`{}}`, false},
	{``, false},
	{`null`, false},
	{`[]`, false},
	{`{"output_index":01}`, false},
	{`{"output_index":-1}`, false},
	{`{"output_index":1.5}`, false},
	{`{"output_index":1e2}`, false},
	{`{"delta":nul}`, false},
	{`{"delta":nulls}`, false},
	{`{"delta":["a"]}`, false},
	{`{"item":{}}`, false},
}

func TestReadFlat(t *testing.T) {
	for _, c := range flatEvents {
		if got := readFlat([]byte(c.data), new(envelope)); got != c.flat {
			t.Errorf("readFlat(%s) = %t, want %t", c.data, got, c.flat)
		}
		sameAsWhole(t, []byte(c.data))
	}
}

// sameAsWhole fails unless the short way reads what the long one does.
func sameAsWhole(t *testing.T, data []byte) {
	t.Helper()
	var short, long envelope
	if !readFlat(data, &short) {
		return
	}
	if err := new(objectReader).read(data, &long); err != nil || !reflect.DeepEqual(short, long) {
		t.Errorf("%s\nis read as %+v\nand in the long way as %+v, %v", data, short, long, err)
	}
}

func FuzzReadFlat(f *testing.F) {
	for _, c := range flatEvents {
		f.Add([]byte(c.data))
	}
	f.Add([]byte(strings.Repeat(`{"type":`, 9)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if utf8.Valid(data) { // as all events are
			sameAsWhole(t, data)
		}
	})
}
