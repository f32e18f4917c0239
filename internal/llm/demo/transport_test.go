package demo

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestTransport_SurvivesAPanicOfItsHandler(t *testing.T) {
	for name, started := range map[string]bool{"before the headers": false, "within the body": true} {
		t.Run(name, func(t *testing.T) {
			rt := transport{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if started {
					w.WriteHeader(http.StatusOK)
				}
				panic("a bug")
			})}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://demo.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if want := map[bool]int{false: 500, true: 200}[started]; resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, errBroken) {
				t.Errorf("the body ended with %v, want %v", err, errBroken)
			}
		})
	}
}
