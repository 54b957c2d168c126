package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// originAny stands for every web origin.
const originAny = "*"

// checkOrigins refuses what would let any page act in a user's name: without tokens, all
// that a request needs is to reach the server.
func checkOrigins(origins []string, tokens bool) error {
	var errs []error
	for _, o := range origins {
		if o == originAny {
			if !tokens {
				errs = append(errs, errors.New("cors origins: every origin (*) needs tokens; name the origins"))
			}
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || o != u.Scheme+"://"+u.Host {
			errs = append(errs, fmt.Errorf("cors origins: %q is no origin, such as https://app.example", o))
		}
	}
	return errors.Join(errs...)
}

// crossing decides which other web pages may call the API (WHATWG Fetch, "CORS protocol").
type crossing struct {
	origins    []string
	protection *http.CrossOriginProtection
}

func newCrossing(origins []string) *crossing {
	c := &crossing{origins: origins, protection: http.NewCrossOriginProtection()}
	for _, o := range origins {
		if o != originAny {
			_ = c.protection.AddTrustedOrigin(o) // checked with the configuration
		}
	}
	return c
}

func (c *crossing) allowed(origin string) bool {
	return origin != "" && (slices.Contains(c.origins, origin) || slices.Contains(c.origins, originAny))
}

func (c *crossing) check(r *http.Request) error {
	if c.allowed(r.Header.Get("Origin")) {
		return nil
	}
	return c.protection.Check(r)
}

// exposed are the headers of answers that pages of other origins may read.
const exposed = "Turnfold-Turn, Location, Content-Location, Retry-After, X-Vercel-Ai-Ui-Message-Stream"

// answer tells a browser that the page may call, and answers its question beforehand.
func (c *crossing) answer(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(c.origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !c.allowed(origin) {
		return false
	}
	// No cookie is ever looked at, so that credentials need no permission.
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked) // of an origin that may send what it likes
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
