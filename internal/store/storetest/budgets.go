package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
)

func budgetTests() []test {
	return []test{
		{"BooksAddUpAndLast", booksAddUp},
		{"BooksThatFailLeaveNothing", booksFail},
		{"BooksOfAnOrganisationAreKeptOneAfterTheOther", booksInTurn},
		{"HoldsAreTheOthersAndEnd", holds},
		{"BooksGoWithTheirSessionAndOrganisation", booksAreErased},
		{"SessionsAreCounted", sessionsCounted},
	}
}

// keep runs work on the books.
func keep(t *testing.T, d *data, k agent.TurnKey, work func(budget.Books) error) {
	t.Helper()
	if err := d.Books(t.Context(), k, work, notLanded); err != nil {
		t.Fatal(err)
	}
}

func notLanded(budget.Books) (bool, error) { return false, nil }

func spent(t *testing.T, d *data, of agent.OrgID, scopes ...budget.Scope) []budget.Amount {
	t.Helper()
	got, err := d.Spent(t.Context(), of, scopes)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func booksAddUp(t *testing.T, d *data) {
	day, unknown := budget.Scope{Period: "2026-01-02"}, budget.Scope{Period: "2026-01-03"}
	for i := range 3 {
		keep(t, d, key("s", "t"), func(b budget.Books) error {
			if _, err := b.Open(day); err != nil {
				return err
			}
			// What is not there stays away.
			return errors.Join(b.Add(unknown, budget.Amount{Tokens: 1}),
				b.Add(day, budget.Amount{Tokens: int64(10 * (i + 1)), Cost: 7, ToolCalls: 2, Time: 3 * time.Millisecond}))
		})
	}
	d.reopen(t)
	want := []budget.Amount{{Tokens: 60, Cost: 21, ToolCalls: 6, Time: 9 * time.Millisecond}, {}}
	if diff := cmp.Diff(want, spent(t, d, org, day, unknown)); diff != "" {
		t.Errorf("spent (-want +got):\n%s", diff)
	}
	if got := spent(t, d, otherOrg, day); got[0] != (budget.Amount{}) {
		t.Errorf("another organisation has spent %v", got[0])
	}
	keep(t, d, key("s", "t"), func(b budget.Books) error {
		e, there, err := b.Find(day)
		if !there || e.Largest != (budget.Amount{Tokens: 30, Cost: 7}) {
			t.Errorf("the largest call is %v (there: %t)", e.Largest, there)
		}
		return err
	})
}

func booksFail(t *testing.T, d *data) {
	refused := errors.New("refused")
	err := d.Books(t.Context(), key("s", "t"), func(b budget.Books) error {
		_, err := b.Open(budget.Scope{})
		return errors.Join(err, b.Add(budget.Scope{}, budget.Amount{Tokens: 5}), b.Hold("ticket", budget.Amount{}, at(60)), refused)
	}, notLanded)
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	keep(t, d, key("s", "t"), func(b budget.Books) error {
		_, there, err := b.Find(budget.Scope{})
		ticket, ticketErr := b.Ticket()
		if there || ticket != "" {
			t.Errorf("the entry is there: %t, the ticket is %q", there, ticket)
		}
		return errors.Join(err, ticketErr)
	})
}

// Whoever reads an entry and writes what follows from it is not overtaken.
func booksInTurn(t *testing.T, d *data) {
	const many = 40
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			err := d.Books(context.WithoutCancel(t.Context()), key("s", agent.TurnID(fmt.Sprint("t", i))), func(b budget.Books) error {
				e, err := b.Open(budget.Scope{})
				if err != nil || e.Spent.Tokens >= many/2 {
					return err
				}
				return b.Add(budget.Scope{}, budget.Amount{Tokens: 1})
			}, notLanded)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := spent(t, d, org, budget.Scope{})[0].Tokens; got != many/2 {
		t.Errorf("%d got through, want %d", got, many/2)
	}
}

func holds(t *testing.T, d *data) {
	most := budget.Amount{Tokens: 100, Cost: 20, Time: time.Minute}
	for _, turn := range []string{"t1", "t2"} {
		keep(t, d, key("s", agent.TurnID(turn)), func(b budget.Books) error { return b.Hold("of "+turn, most, at(10)) })
	}
	keep(t, d, agent.TurnKey{Org: otherOrg, Session: "s", Turn: "t3"}, func(b budget.Books) error { return b.Hold("foreign", most, at(10)) })
	held := func(turn string, minute int) (calls int64, a budget.Amount) {
		keep(t, d, key("s", agent.TurnID(turn)), func(b budget.Books) (err error) {
			calls, a, err = b.Held(at(minute))
			return err
		})
		return calls, a
	}
	if calls, a := held("t1", 0); calls != 1 || a != most {
		t.Errorf("beside t1: %d calls, %v", calls, a)
	}
	if calls, a := held("t3", 0); calls != 2 || a != most.Plus(most) {
		t.Errorf("beside t3: %d calls, %v", calls, a)
	}
	if calls, _ := held("t3", 11); calls != 0 {
		t.Errorf("%d calls are held when their time is over", calls)
	}
	keep(t, d, key("s", "t1"), func(b budget.Books) error {
		wrong, err := b.Release("of t2")
		right, rightErr := b.Release("of t1")
		again, againErr := b.Release("of t1")
		if wrong || !right || again {
			t.Errorf("released: %t, %t, %t", wrong, right, again)
		}
		return errors.Join(err, rightErr, againErr)
	})
	if err := d.DropHold(t.Context(), key("s", "t2")); err != nil {
		t.Fatal(err)
	}
	if calls, _ := held("t3", 0); calls != 0 {
		t.Errorf("%d calls are held and none should be", calls)
	}
}

func booksAreErased(t *testing.T, d *data) {
	all := []budget.Scope{{}, {Session: "s1"}, {Session: "s1", Turn: "t1"}, {Session: "s2"}}
	create(t, d, newSession("s1"))
	create(t, d, newSession("s2"))
	keep(t, d, key("s1", "t1"), func(b budget.Books) error {
		for _, scope := range all {
			if _, err := b.Open(scope); err != nil {
				return err
			}
			if err := b.Add(scope, budget.Amount{Tokens: 1}); err != nil {
				return err
			}
		}
		return b.Hold("ticket", budget.Amount{}, at(60))
	})
	one, none := budget.Amount{Tokens: 1}, budget.Amount{}
	if err := d.DeleteSession(t.Context(), org, "s1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]budget.Amount{one, none, none, one}, spent(t, d, org, all...)); diff != "" {
		t.Errorf("without its session (-want +got):\n%s", diff)
	}
	if _, err := d.EraseOrg(t.Context(), org); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]budget.Amount{none, none, none, none}, spent(t, d, org, all...)); diff != "" {
		t.Errorf("without its organisation (-want +got):\n%s", diff)
	}
}

func sessionsCounted(t *testing.T, d *data) {
	for i := range 5 {
		create(t, d, newSession(agent.SessionID(fmt.Sprint("s", i))))
	}
	for most, want := range map[int]int{3: 3, 5: 5, 100: 5} {
		if got, err := d.CountSessions(t.Context(), org, most); err != nil || got != want {
			t.Errorf("counted %d up to %d (error %v), want %d", got, most, err, want)
		}
	}
	if got, err := d.CountSessions(t.Context(), otherOrg, 10); err != nil || got != 0 {
		t.Errorf("counted %d of another organisation (error %v)", got, err)
	}
}
