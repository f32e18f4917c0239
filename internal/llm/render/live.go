package render

// Live is the stream of a response that is still being made. Each method returns the
// events that it adds; they are the ones that Response.Events has for the whole, with
// the same numbers. It is the door's side of a turn: what the pipeline shows goes in,
// what a stock client reads comes out. One goroutine uses it.
type Live struct {
	s    stream
	open *Message // the message whose text comes in
	out  []Item
}

// Begin opens the stream with what is known of the response.
func (l *Live) Begin(r Response) ([]Event, error) {
	l.s.response("response.created", r.document(inProgress))
	l.s.response("response.in_progress", r.document(inProgress))
	return l.take()
}

// Text adds a piece of text to the open message, and opens one with the id that next
// gives when there is none.
func (l *Live) Text(delta string, next func(index int) string) ([]Event, error) {
	if l.open == nil {
		l.open = &Message{ID: next(len(l.out))}
		l.open.open(&l.s, len(l.out))
		l.s.add(l.open.part("response.content_part.added", len(l.out), event{Part: text("")}))
	}
	l.open.Deltas = append(l.open.Deltas, delta)
	l.open.delta(&l.s, len(l.out), delta)
	return l.take()
}

// Close ends the open message, if there is one.
func (l *Live) Close() ([]Event, error) {
	l.closeAs(completed)
	return l.take()
}

func (l *Live) closeAs(status string) {
	if l.open == nil {
		return
	}
	index := len(l.out)
	l.open.closeText(&l.s, index)
	l.s.add(event{Type: "response.output_item.done", OutputIndex: &index, Item: l.open.resource(status)})
	l.out = append(l.out, *l.open)
	l.open = nil
}

// Add streams a whole item.
func (l *Live) Add(item Item) ([]Event, error) {
	l.closeAs(completed)
	item.stream(&l.s, len(l.out), completed)
	l.out = append(l.out, item)
	return l.take()
}

// Output returns the items that are whole.
func (l *Live) Output() []Item { return l.out }

// End closes the stream with how the response ended. Text that nothing completed is
// marked as such.
func (l *Live) End(r Response) ([]Event, error) {
	status := completed
	if r.Failure != nil || r.Cancelled || r.Incomplete != "" {
		status = incomplete
	}
	l.closeAs(status)
	r.Output = l.out
	l.s.end(r)
	return l.take()
}

func (l *Live) take() ([]Event, error) {
	events := l.s.events
	l.s.events = nil
	return events, l.s.err
}
