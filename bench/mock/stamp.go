package mock

import (
	"strconv"
	"time"
)

// A stamp is a time in microseconds, in base 36, and of that the last TokenBytes digits. It
// comes again after stampCycle.
const (
	stampBase  = 36
	stampCycle = stampBase * stampBase * stampBase * stampBase * stampBase * stampBase
)

// Stamp returns the token that says that it was due at a time, to the microsecond.
func Stamp(t time.Time) string {
	// The digit in front keeps the zeros.
	return strconv.FormatInt(stampCycle+t.UnixMicro()%stampCycle, stampBase)[1:]
}

// Began returns when the answer with this text was begun, on the clock of the model's
// machine and within half an hour before now. Text without a stamp is of no answer that
// has a Gap.
func Began(text []byte, now time.Time) (began time.Time, ok bool) {
	if len(text) < TokenBytes {
		return time.Time{}, false
	}
	at, err := strconv.ParseInt(string(text[:TokenBytes]), stampBase, 64)
	if err != nil || at < 0 {
		return time.Time{}, false
	}
	ago := (now.UnixMicro()%stampCycle - at + stampCycle) % stampCycle
	return now.Add(-time.Duration(ago) * time.Microsecond), true
}
