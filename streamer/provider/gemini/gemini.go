// Package gemini speaks Google's streamGenerateContent.
//
// Invariant: a reply counts as finished only if STOP is the last that was said of its
// end, every call has a name, and every argument text is exactly one JSON object (I4).
// Each part with a functionCall is a call of its own: parts are never merged, by name or
// by place. A signature goes back with its own part, byte for byte.
package gemini

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
)

// Name is the API's name in the configuration and on the log.
const Name = "gemini"

// API is the dialect.
type API struct{}

// Name is "gemini".
func (API) Name() string { return Name }

// NewDecoder makes the decoder of one response.
func (API) NewDecoder() provider.Decoder { return newDecoder() }

// Encode makes the request. Equal requests give equal bytes, and a longer conversation
// begins with the bytes of a shorter one, which is what prompt caches look for.
func (API) Encode(ep provider.Endpoint, req provider.Request) (*provider.Wire, error) {
	u, err := address(ep, req.Model)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	if ep.Key != "" {
		h.Set("X-Goog-Api-Key", ep.Key)
	}
	e := encoder{strict: signed(req.Model)}
	if err := e.request(req); err != nil {
		return nil, err
	}
	return &provider.Wire{Method: http.MethodPost, URL: u, Header: h, Body: e.Out}, nil
}

// address puts the model in the path. A model with a slash brings its own collection,
// such as tunedModels/x. Vertex's base ends in its publisher and has the version inside.
func address(ep provider.Endpoint, model string) (string, error) {
	if strings.Trim(model, "./") == "" {
		return "", errors.New("no model is named")
	}
	version := "v1beta"
	if base, _, _ := strings.Cut(ep.BaseURL, "?"); strings.HasSuffix(strings.TrimRight(base, "/"), "/publishers/google") {
		version = ""
	}
	path := strings.Split(model, "/")
	if len(path) == 1 {
		path = []string{"models", model}
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	path[len(path)-1] += ":streamGenerateContent"
	u, err := ep.Address(version, path...)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "alt=sse" // without it the answer is one growing array
	return u.String(), nil
}

// signed reports whether a model refuses a step whose first call has no signature: all
// since Gemini 3 do.
func signed(model string) bool {
	_, major, ok := strings.Cut(model[strings.LastIndexByte(model, '/')+1:], "gemini-")
	if !ok {
		return false
	}
	n := 0
	for n < len(major) && major[n] >= '0' && major[n] <= '9' {
		n++
	}
	v, err := strconv.Atoi(major[:n])
	return err == nil && v >= 3
}
