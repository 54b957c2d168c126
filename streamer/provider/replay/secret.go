package replay

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "REDACTED"

// secretBytesMin is the length from which a value is looked for elsewhere: a shorter one
// would be found in innocent words.
const secretBytesMin = 8

// secrets knows the secret values of one request's headers and address.
type secrets struct{ values []string }

func newSecrets(req *http.Request) *secrets {
	s := &secrets{}
	for name, values := range req.Header {
		if secretHeader(name) {
			for _, v := range values {
				s.add(v)
			}
		}
	}
	for name, values := range req.URL.Query() {
		if secretParameter(name) {
			for _, v := range values {
				s.add(v)
				s.add(url.QueryEscape(v))
			}
		}
	}
	// The longest first: one value may be a part of another.
	slices.SortFunc(s.values, func(a, b string) int { return len(b) - len(a) })
	return s
}

// add keeps the words of a value, so that a key is known without its scheme and a
// cookie without its name.
func (s *secrets) add(value string) {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ';' || r == ',' }) {
		if _, v, ok := strings.Cut(word, "="); ok && len(v) >= secretBytesMin {
			s.values = append(s.values, v)
		}
		if len(word) >= secretBytesMin {
			s.values = append(s.values, word)
		}
	}
}

// secretHeader reports whether a header's value is a secret by the header's name. An
// idempotency key is none, and the rate limits of tokens are none.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "idempotency-key") {
		return false
	}
	for _, part := range []string{"auth", "cookie", "secret", "password", "credential", "api-key", "apikey", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "-key") || strings.HasSuffix(name, "-token") || name == "key" || name == "token"
}

// secretParameter is secretHeader for the parameters of a query.
func secretParameter(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	return secretHeader(name) || name == "sig" || name == "code"
}

// header gives a copy without secrets and without what frames the body.
func (s *secrets) header(h http.Header) http.Header {
	out := h.Clone()
	unframe(out)
	for name, values := range out {
		for i := range values {
			if secretHeader(name) {
				values[i] = Redacted
			} else {
				values[i] = s.strip(values[i])
			}
		}
	}
	return out
}

// clean gives a path and query without secrets.
func (s *secrets) clean(path string) string {
	at, query, has := strings.Cut(path, "?")
	if !has {
		return s.strip(path)
	}
	parts := strings.Split(query, "&")
	for i, p := range parts {
		name, _, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil || secretParameter(plain) {
			parts[i] = name + "=" + Redacted
		}
	}
	return s.strip(at + "?" + strings.Join(parts, "&"))
}

func (s *secrets) strip(text string) string {
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, Redacted)
	}
	return text
}

// keys are the forms of well-known keys.
var keys = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{35}|xox[abp]-[0-9A-Za-z-]{10,}|gh[pousr]_[0-9A-Za-z]{36}|AKIA[0-9A-Z]{16})`)

// warnings name what may be a secret in a body, without saying it.
func (s *secrets) warnings(r *Recording) []string {
	var out []string
	for _, b := range []struct {
		name string
		data []byte
	}{{"request.body", r.Request.Body}, {"response.body", r.Response.Body}} {
		switch {
		case slices.ContainsFunc(s.values, func(v string) bool { return bytes.Contains(b.data, []byte(v)) }):
			out = append(out, b.name+" holds a secret of the request's headers or address")
		case keys.Match(b.data):
			out = append(out, b.name+" holds what looks like a key")
		}
	}
	return out
}
