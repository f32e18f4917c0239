package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

//go:embed assets/console.css assets/console.js assets/htmx.min.js assets/icon.svg
var assetFiles embed.FS

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assetVersion changes with any of the files, and so do their addresses.
var assetVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	entries, err := assetFiles.ReadDir("assets")
	if err != nil { // the files are part of the binary
		return "unknown"
	}
	for _, e := range entries {
		data, _ := assetFiles.ReadFile("assets/" + e.Name())
		_, _ = sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})

// asset serves the style sheet, the scripts and the icon. They are the same for everybody.
func (c *Console) asset(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	name := r.PathValue("file")
	kind, ok := assetTypes[path.Ext(name)]
	data, err := assetFiles.ReadFile("assets/" + name)
	if !ok || err != nil {
		return agent.Errorf(agent.KindNotFound, "There is no such file.")
	}
	if r.URL.Query().Get("v") == assetVersion() {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // a reader who is gone misses nothing
	return nil
}
