package contract

// Limits bounds what one request may carry. Zero fields mean the default.
type Limits struct {
	// Body is the size of the whole body in bytes; default 8 MiB.
	Body int64
	// Artifacts is how many input artifacts a turn may have; default 32.
	Artifacts int
	// ArtifactBytes is the decoded size of one artifact or image; default 4 MiB.
	ArtifactBytes int64
	// TurnBytes is the decoded size of all artifacts and images of a turn; default
	// 16 MiB.
	TurnBytes int64
	// Images is how many clipboard images a turn may have; default 20.
	Images int
	// Depth is how deep objects and arrays may be nested; default 64.
	Depth int
	// Keys is how many object members a body may have in all. It bounds the array
	// elements too, counted on their own. Default 10,000.
	Keys int
}

func (l Limits) withDefaults() Limits {
	l.Body = or(l.Body, 8<<20)
	l.Artifacts = or(l.Artifacts, 32)
	l.ArtifactBytes = or(l.ArtifactBytes, 4<<20)
	l.TurnBytes = or(l.TurnBytes, 16<<20)
	l.Images = or(l.Images, 20)
	l.Depth = or(l.Depth, 64)
	l.Keys = or(l.Keys, 10_000)
	return l
}

func or[N int | int64](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// budget is what is left of Limits.TurnBytes while the artifacts and images of a turn
// are read.
type budget struct {
	perItem, perTurn, spent int64
}

// spend counts the decoded size of one artifact or image against both limits.
func (b *budget) spend(size int64, item value) {
	if size > b.perItem {
		item.fault(ruleLimits, "is %d bytes when decoded; at most %d are taken. Send the part that matters.", size, b.perItem)
	}
	within := b.spent <= b.perTurn
	b.spent += size
	// Said once, at the item that crosses the line.
	if within && b.spent > b.perTurn {
		item.fault(ruleLimits, "brings the artifacts and images of this turn over %d decoded bytes; send fewer or smaller ones.", b.perTurn)
	}
}
