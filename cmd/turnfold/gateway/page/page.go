// Package page is the web page of the gateway: for whoever is on call, and for whoever
// audits. It is files that a browser runs as they are; nothing is built.
//
// Invariant: the page loads nothing from anywhere else, and what it shows of turns
// reaches it over the API alone, as text and never as markup. Its policy has the browser
// enforce both.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and call its own server, and nothing else. No
// script may make markup of text (trusted types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are the content types of the files, by their extensions.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// asset is a file as it is sent.
type asset struct {
	data []byte
	kind string
	etag string
}

var assets = load()

func load() map[string]asset {
	out := map[string]asset{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := static.ReadFile(name)
		sum := sha256.Sum256(data)
		out[strings.TrimPrefix(name, "static/")] = asset{data, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic("page: " + err.Error()) // the files are part of the binary
	}
	return out
}

// Name is the page itself among its files.
const Name = "index.html"

// Serve answers with a file of the page; false, and nothing written, if there is none of
// that name.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	a, ok := assets[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-cache") // asked for each time, sent when it has changed
	h.Set("ETag", a.etag)
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Type", a.kind)
	_, _ = w.Write(a.data) // the client may have gone
	return true
}
