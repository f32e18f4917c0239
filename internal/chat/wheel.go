package chat

import "time"

// wheel turns at the beginning of a line while nothing comes, so that a person sees that
// somebody is at work. Where nobody watches there is none: its ticks never come.
type wheel struct {
	out   *screen
	ticks <-chan time.Time
	stop  func()
	shown int // the picture that is to be seen, from 1; 0 for none
}

const wheelEvery = 150 * time.Millisecond

func (c *chat) wheel() *wheel {
	if c.Keyboard == nil {
		return &wheel{stop: func() {}}
	}
	t := time.NewTicker(wheelEvery)
	w := &wheel{out: c.out, ticks: t.C}
	w.stop = func() {
		t.Stop()
		w.hide()
	}
	return w
}

// turn shows the next picture, unless a line is begun.
func (w *wheel) turn() {
	const pictures = "|/-\\"
	if w.out.begun && w.shown == 0 {
		return
	}
	w.out.write("\r" + w.out.styled(dim, string(pictures[w.shown%len(pictures)])))
	w.shown++
}

// hide leaves the line as if nothing had been there.
func (w *wheel) hide() {
	if w.shown == 0 {
		return
	}
	w.shown = 0
	w.out.write("\r \r")
	w.out.begun = false
}
