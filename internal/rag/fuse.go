package rag

import (
	"cmp"
	"slices"
)

// rankOffset damps the first places of a ranking against the others; 60 is the value
// that reciprocal rank fusion is known with.
const rankOffset = 60

// fuse merges rankings by reciprocal rank: a hit scores 1/(60+place) in each ranking
// that has it. Equal scores are ordered by id.
func fuse(rankings ...[]Hit) []Hit {
	scores := map[int64]float64{}
	var out []Hit
	for _, ranking := range rankings {
		for place, h := range ranking {
			if _, seen := scores[h.ID]; !seen {
				out = append(out, h)
			}
			scores[h.ID] += 1 / float64(rankOffset+place+1)
		}
	}
	slices.SortFunc(out, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(scores[b.ID], scores[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// lift fuses a ranking with the part of it that is preferred, as one more ranking.
func lift(ranking []Hit, prefer patterns) []Hit {
	if prefer.empty() {
		return ranking
	}
	var preferred []Hit
	for _, h := range ranking {
		if prefer.match(h.Index, h.Path) {
			preferred = append(preferred, h)
		}
	}
	return fuse(ranking, preferred)
}
