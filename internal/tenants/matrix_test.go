package tenants

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMatrix is every tenant × every operation of the published document, and every other
// method on its path × everything that the other tenants have: no byte of it in an
// answer, its headers or the log, and the same answer as about what does not exist
// (reliability S-7, S-8, S-9).
func TestMatrix(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s journal) {
		r := newRig(t, s)
		tenants := map[string]tenant{}
		for _, org := range organisations {
			tenants[org] = r.settle(org, org)
		}
		for org, n := range tenants {
			if all := r.belongings(n); strings.Count(all, canary(org)) < 50 {
				t.Fatalf("%s has its canary in few places only:\n%s", org, all)
			}
		}
		m := &matrix{rig: r}
		for _, attacker := range organisations {
			m.begin(attacker)
			for _, owner := range organisations {
				if owner == attacker || !thorough && (attacker != "alpha" || owner != "bravo") {
					continue
				}
				had := r.belongings(tenants[owner]) // with what it made itself when its turn was
				for _, x := range tenants[owner].things {
					for _, o := range operations(t) {
						m.ask(o, owner, x)
					}
					m.otherMethods(owner, x)
				}
				if after := r.belongings(tenants[owner]); after != had {
					t.Fatalf("%s has changed what %s has: it had\n%s\nand has\n%s", attacker, owner, had, after)
				}
			}
		}
		t.Logf("%d requests about what others have: %d foreign bytes; the median of a request about a foreign thing is %s, about a missing one %s",
			m.asked, m.leaks, median(m.foreign), median(m.missing))
		everyOperationWorks(r)
	})
}

// matrix asks, and counts what came of it.
type matrix struct {
	*rig
	attacker         string
	has              []string // the attacker's sessions
	asked, leaks     int
	foreign, missing []time.Duration
}

func (m *matrix) begin(attacker string) {
	m.attacker = attacker
	m.has = m.sessions()
}

// sessions lists those of the attacker.
func (m *matrix) sessions() []string {
	m.t.Helper()
	var list struct{ Data []struct{ SessionID string } }
	read(m.t, m.want(m.attacker, request{"GET", "/v1/sessions?limit=200", "", nil}, 200), &list)
	var ids []string
	for _, s := range list.Data {
		ids = append(ids, s.SessionID)
	}
	return ids
}

// ask tries an operation on another tenant's thing, and on one that does not exist.
func (m *matrix) ask(o operation, owner string, x thing) {
	m.t.Helper()
	y := thingOf(nobody, x.state)
	y.approval, y.call, y.cursors, y.idempotencyKey = x.approval, x.call, x.cursors, x.idempotencyKey
	if len(y.turn) != len(x.turn) {
		y.turn = strings.Repeat("0", len(x.turn))
		y.response = responseID(1, y.session, y.turn)
	}
	renamed := strings.NewReplacer(x.response, y.response, clip(x.response), clip(y.response), x.key, y.key, x.webhook, y.webhook, x.erasure, y.erasure, userOf(x.org), userOf(y.org), x.org, y.org, x.session, y.session, x.turn, y.turn)
	twins := o.requests(m.t, y)
	for i, q := range o.requests(m.t, x) {
		got := m.send(owner, q)
		m.tidy(q, got)
		none := m.send(owner, twins[i])
		m.tidy(twins[i], none)
		where := fmt.Sprintf("%s asks %s %s %v %s about the %s thing of %s", m.attacker, q.method, q.target, q.header, q.body, x.state, owner)
		if got.status != none.status {
			m.t.Errorf("%s and gets %d %s; about nothing %d %s", where, got.status, got.body, none.status, none.body)
			continue
		}
		if got.status < 300 {
			continue // something of its own, or of everybody's
		}
		m.foreign, m.missing = append(m.foreign, got.took), append(m.missing, none.took)
		if a, b := renamed.Replace(got.body), renamed.Replace(none.body); a != b {
			m.t.Errorf("%s and gets %s; about nothing %s", where, a, b)
		}
		if a, b := headerNames(got.header), headerNames(none.header); a != b {
			m.t.Errorf("%s and gets the headers %s; about nothing %s", where, a, b)
		}
	}
}

// clip is how a long name stands in a message.
func clip(name string) string { return name[:min(len(name), 79)] }

// send asks, and searches what comes for bytes of the others.
func (m *matrix) send(owner string, q request) answer {
	m.t.Helper()
	a := m.as(m.attacker, q)
	m.asked++
	told := q.target + q.body + fmt.Sprint(q.header)
	for _, org := range organisations {
		if org == m.attacker {
			continue
		}
		marks := []string{canary(org)}
		// The attacker's own audit log has the names that it has tried.
		if name := "-" + org + "-"; !strings.Contains(told, name) && !strings.HasPrefix(q.target, "/v1/audit") {
			marks = append(marks, name) // names that the attacker did not bring
		}
		for place, text := range map[string]string{"answer": a.body, "headers": fmt.Sprint(a.header), "log": a.log} {
			for _, mark := range marks {
				if n := strings.Count(text, mark); n > 0 {
					m.leaks += n * len(mark)
					m.t.Errorf("%s asks %s %s %s about %s, and the %s holds %q: %s", m.attacker, q.method, q.target, q.body, owner, place, mark, text)
				}
			}
		}
	}
	return a
}

// tidy takes away what the attacker made for itself under others' names.
func (m *matrix) tidy(q request, a answer) {
	m.t.Helper()
	if q.method == http.MethodGet || a.status >= 300 && a.status != http.StatusBadGateway {
		return
	}
	if q.target == "/v1/webhooks" {
		var made struct{ WebhookID string }
		read(m.t, a, &made)
		m.want(m.attacker, request{"DELETE", "/v1/webhooks/" + made.WebhookID, "", nil}, 204)
	}
	for _, id := range m.sessions() {
		if !slices.Contains(m.has, id) {
			m.want(m.attacker, request{"DELETE", "/v1/sessions/" + id, "", nil}, 204)
		}
	}
}

// otherMethods tries what a path does not take.
func (m *matrix) otherMethods(owner string, x thing) {
	m.t.Helper()
	paths := map[string][]string{}
	for _, o := range operations(m.t) {
		target, _, _ := strings.Cut(o.requests(m.t, x)[0].target, "?")
		paths[target] = append(paths[target], o.method)
	}
	for target, taken := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
			if slices.Contains(taken, method) {
				continue
			}
			if a := m.send(owner, request{method, target, "", nil}); a.status < 400 && method != "HEAD" {
				m.t.Errorf("%s %s is answered with %d", method, target, a.status)
			}
		}
	}
}

// everyOperationWorks shows that what the matrix sends does something when the owner
// sends it: else it would prove nothing. Each operation gets an owner of its own, since one
// spoils what another needs.
func everyOperationWorks(r *rig) {
	r.t.Helper()
	r.provider.letGo() // else whoever follows the turn that runs does so for ever
	for i, o := range operations(r.t) {
		if !thorough && i%8 != 0 {
			continue
		}
		org := fmt.Sprint("own", i)
		n, worked := r.settle(org, org), false
		for _, x := range n.things {
			for _, q := range o.requests(r.t, x) {
				if x.state == "asking" && o.id == "getResponse" && strings.Contains(q.target, "?") {
					continue // its stream stays open until the user has decided
				}
				if a := r.as(n.org, q); a.status < 300 {
					worked = true
				}
			}
		}
		if !worked {
			r.t.Errorf("%s %s works for nobody, so that it is refused to others shows nothing", o.method, o.path)
		}
	}
}

// headerNames are the headers that an answer has, with those values that do not depend on
// the names in the request.
func headerNames(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		b.WriteString(name + " ")
		if name != "Content-Length" && name != "Date" {
			fmt.Fprintf(&b, "%v ", h[name])
		}
	}
	return b.String()
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
