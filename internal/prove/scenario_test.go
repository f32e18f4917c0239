package prove_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/prove"
)

func TestNamed(t *testing.T) {
	tests := []struct {
		name, archive string
		want          []string
	}{
		{"nothing", "A talk.\n-- a --\nx\n", nil},
		{"one line", "A talk.\nproves: AGN011-3.1-a AGN011-3.1-b\n-- a --\n", []string{"AGN011-3.1-a", "AGN011-3.1-b"}},
		{"two lines, one in a script's comment", "# proves: A\nexec aptix\n#proves: B\n", []string{"A", "B"}},
		{"inside a file it is content", "proves: A\n-- request.json --\nproves: B\n", []string{"A"}},
		{"Windows line ends", "proves: A\r\n-- a --\r\nproves: B\r\n", []string{"A"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(prove.Named([]byte(tt.archive)), tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}
