package floor

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Proxy passes requests on to the model and does nothing else.
func Proxy(model *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(model) },
		Transport:     transport(),
		FlushInterval: -1,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The body is read first: net/http closes what is left of it with the first byte
		// of the answer, which a bare ReverseProxy may still be sending then.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	})
}

// transport keeps as many connections as there are clients.
func transport() *http.Transport {
	return &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 16384, DisableCompression: true}
}
