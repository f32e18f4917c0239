package agent_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

func TestValidID(t *testing.T) {
	pattern := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	ids := []string{"", strings.Repeat("a", 128), strings.Repeat("a", 129), "é", "a\n"}
	for c := range 256 {
		ids = append(ids, string([]byte{byte(c)}), "id"+string([]byte{byte(c)}), string([]byte{byte(c)})+"id")
	}
	for _, id := range ids {
		if got, want := agent.ValidID(id), pattern.MatchString(id); got != want {
			t.Errorf("%q is an id: %t, want %t", id, got, want)
		}
	}
}
