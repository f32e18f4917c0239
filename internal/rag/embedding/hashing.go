package embedding

import (
	"context"
	"hash/fnv"
	"math"

	"github.com/aptixhq/aptix/internal/rag"
)

// hashingDimension is the length of the vectors of Hashing.
const hashingDimension = 1024

// subwordWeight is what a piece of a word counts against the whole of it.
const subwordWeight = 0.15

// Hashing embeds without a model: the words of a text and the pieces of three letters
// in them are hashed into a vector (feature hashing). It is deterministic, offline and
// free. Texts are near that share words, or words with the same stem; it knows nothing
// of meaning, so that car and automobile are strangers.
type Hashing struct{}

// Name implements rag.Embedder. It changes with the vectors.
func (Hashing) Name() string { return "hashing-1" }

// Embed implements rag.Embedder.
func (Hashing) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = hashed(text)
	}
	return out, nil
}

func hashed(text string) []float32 {
	vector := make([]float64, hashingDimension)
	for _, f := range features(text) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(f.name)) // never fails
		sum := h.Sum64()
		weight := f.weight
		if weight > 1 {
			weight = 1 + math.Log(weight) // the tenth time says little more than the first
		}
		if sum>>63 == 1 {
			weight = -weight // what collides cancels out as often as it adds up
		}
		vector[sum%hashingDimension] += weight
	}
	return normalised(vector)
}

// feature is a word or a piece of one, with how often it is there.
type feature struct {
	name   string
	weight float64
}

// features returns the features of a text in the order in which they turn up: in another
// order their sum would have another last bit.
func features(text string) []feature {
	var out []feature
	place := map[string]int{}
	add := func(name string, weight float64) {
		i, ok := place[name]
		if !ok {
			i = len(out)
			place[name] = i
			out = append(out, feature{name: name})
		}
		out[i].weight += weight
	}
	for _, w := range rag.ContentWords(text) {
		add("word "+w, 1)
		framed := []rune("^" + w + "$")
		for i := 0; i+3 <= len(framed); i++ {
			add("piece "+string(framed[i:i+3]), subwordWeight)
		}
	}
	return out
}

// normalised returns the vector with length 1; the zero vector stays.
func normalised(v []float64) []float32 {
	sum := 0.0
	for _, f := range v {
		sum += f * f
	}
	out := make([]float32, len(v))
	if sum == 0 {
		return out
	}
	length := math.Sqrt(sum)
	for i, f := range v {
		out[i] = float32(f / length)
	}
	return out
}
