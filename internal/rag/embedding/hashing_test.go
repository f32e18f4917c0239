package embedding_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/rag/embedding"
)

func embed(t *testing.T, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := embedding.Hashing{}.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return vectors
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestHashing_SharedWordsAreNear(t *testing.T) {
	v := embed(t, "func maxReadBytes(reader)", "how many bytes may the reader read at most?", "the lighthouse keeper counts ships")
	if near, far := dot(v[0], v[1]), dot(v[0], v[2]); near < far+0.2 {
		t.Errorf("shared words: %.2f, none: %.2f", near, far)
	}
	if length := math.Sqrt(dot(v[0], v[0])); math.Abs(length-1) > 1e-5 {
		t.Errorf("length %f, want 1", length)
	}
}

// The vectors are in the index for ever: another build must make the same ones, bit for
// bit. If this fails on purpose, change the name of the embedder.
func TestHashing_StaysTheSame(t *testing.T) {
	v := embed(t, "The turn is resumed from its journal.", "The turn is resumed from its journal.")
	if diff := cmp.Diff(v[0], v[1]); diff != "" {
		t.Errorf("twice the same text: %s", diff)
	}
	got := map[int]float32{}
	for i, f := range embed(t, "turn")[0] {
		if f != 0 {
			got[i] = f
		}
	}
	if diff := cmp.Diff(got, golden()); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestHashing_NothingToCompare(t *testing.T) {
	for _, text := range []string{"", "what is it?", "…", "\x00"} {
		if v := embed(t, text)[0]; dot(v, v) != 0 {
			t.Errorf("%q has a direction", text)
		}
	}
}

// golden is the vector of the one word "turn": the numbers that are not zero.
func golden() map[int]float32 {
	return map[int]float32{30: -0.14367394, 45: -0.14367394, 304: 0.14367394, 436: 0.95782626, 442: -0.14367394}
}
