package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/secret"
)

const canary = "sk-canary-0123456789"

// holder has a secret wherever a struct can have one.
type holder struct {
	Exported secret.Text `json:"exported" yaml:"exported"`
	hidden   secret.Text
	pointer  *secret.Text
	list     []secret.Text
	keys     map[secret.Text]bool
	values   map[string]secret.Text
	any      any
}

func newHolder() holder {
	s := secret.New(canary)
	return holder{s, s, &s, []secret.Text{s}, map[secret.Text]bool{s: true}, map[string]secret.Text{"k": s}, s}
}

// TestText_NeverShows holds row S-25 of docs/security.md.
func TestText_NeverShows(t *testing.T) {
	s, h := secret.New(canary), newHolder()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%c", "%U", "%10.3s", "%-30v", "%p", "%T", "%!"} {
		for _, v := range []any{s, &s, h, &h, []any{h}, map[string]any{"h": h}, [1]secret.Text{s}, struct{ s secret.Text }{s}, errors.Join(fmt.Errorf("e %v", s))} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	_, _ = fmt.Fprintln(&out, s, h, &h)
	for _, v := range []any{s, h, []secret.Text{s}, map[string]secret.Text{"k": s}, map[secret.Text]int{s: 1}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).With("s", s, "h", h).Info("m", "s", s, "p", &s, "h", h, "q", &h, slog.Group("g", "s", s, "h", h))
	}
	out.WriteString(recovered(s) + recovered(h))
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("% x", canary), base64.StdEncoding.EncodeToString([]byte(canary))[:20], "canary"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q shows", form)
		}
	}
	if !strings.Contains(out.String(), secret.Mask) {
		t.Error("nothing was masked, so the test shows nothing")
	}
}

// recovered is what a panic with a value says.
func recovered(v any) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	panic(v)
}

// TestConceal holds row S-25 of docs/security.md.
func TestConceal(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"the key " + canary + " is wrong", "the key *** is wrong"},
		{canary + canary + ".", "******."},
		{"nothing of it", "nothing of it"},
		{"short ones are left", "short ones are left"},
	} {
		if got := secret.Conceal(c.text, secret.New("short"), secret.New(""), secret.New(canary)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	s, empty := secret.New(canary), secret.New("")
	if s.Reveal() != canary || s.IsZero() || s.String() != "***" {
		t.Errorf("got %q, %t, %s", s.Reveal(), s.IsZero(), s)
	}
	if empty != (secret.Text{}) || !empty.IsZero() || empty.Reveal() != "" || fmt.Sprintf("%v%q", empty, empty) != `""` {
		t.Errorf("the empty one: %v, %q", empty, empty.Reveal())
	}
	if !s.Equal(secret.New(canary)) || s.Equal(empty) || s.Equal(secret.New(canary+"x")) {
		t.Error("Equal is wrong")
	}
}
