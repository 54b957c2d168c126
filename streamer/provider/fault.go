package provider

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnfold/turnfold/subjects/event"
)

// detailBytesMax bounds what a failed attempt says for people.
const detailBytesMax = 300

// Fault is why a response broke off before its end.
type Fault struct {
	Class     event.Class
	Detail    string
	Retryable bool
	Err       error
}

func (f *Fault) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("%s: %v", f.Detail, f.Err)
	}
	return f.Detail
}

func (f *Fault) Unwrap() error { return f.Err }

// Failed is the failure of a reply that its stream left incomplete. A clean end
// without the API's end marker is a truncation, which no HTTP layer reports.
func Failed(broken error) *event.AttemptFailed {
	if broken == nil {
		return &event.AttemptFailed{Class: event.Truncated, Detail: "the stream ended without a finish", Retryable: true}
	}
	var f *Fault
	if errors.As(broken, &f) {
		return &event.AttemptFailed{Class: f.Class, Detail: f.Error(), Retryable: f.Retryable}
	}
	return &event.AttemptFailed{Class: event.Connection, Detail: broken.Error(), Retryable: true}
}

// words maps an error's type or code to its HTTP twin: many providers report, inside a
// 200, what others say with a status. Sources: the vendors' error tables, and the types
// that vLLM, OpenRouter and Google's compatible endpoint were seen to send.
var words = map[string]int{
	"invalid_request_error": 400, "invalid_request": 400, "invalid_prompt": 400, "badrequesterror": 400,
	"invalid_argument": 400, "failed_precondition": 400, "bad_request": 400, "unsupported_value": 400,
	"authentication_error": 401, "invalid_api_key": 401, "unauthenticated": 401, "unauthorized": 401,
	"billing_error": 402, "insufficient_quota": 402, "billing_hard_limit_reached": 402, "billing_not_active": 402,
	"insufficient_balance": 402, "payment_required": 402,
	"permission_error": 403, "permission_denied": 403, "forbidden": 403,
	"not_found_error": 404, "model_not_found": 404, "not_found": 404, "notfounderror": 404,
	"request_too_large": 413,
	"rate_limit_error":  429, "rate_limit_exceeded": 429, "too_many_requests": 429, "resource_exhausted": 429,
	"ratelimiterror": 429, "requests": 429, "tokens": 429,
	"server_error": 500, "api_error": 500, "internal_server_error": 500, "internal_error": 500, "internal": 500,
	"internalservererror": 500,
	"unavailable":         503, "service_unavailable": 503,
	"timeout_error": 504, "deadline_exceeded": 504,
	"overloaded_error": 529, "overloaded": 529, "server_is_overloaded": 529, "engine_overloaded": 529,
	"engine_overloaded_error": 529, "slow_down": 529, "insufficient_system_resource": 529,
}

// Classify gives the class of a provider's error and whether another attempt may end
// otherwise. Status is 0 for an error inside a stream, or its numeric code there. Words
// are the error's type and code; the most telling one wins, then the status, then
// whichever word is known. Unknown errors count as the server's and may be retried.
func Classify(status int, said ...string) (class event.Class, retryable bool) {
	twin := 0
	for _, w := range said {
		w = strings.ToLower(strings.TrimSpace(w))
		switch w {
		case "context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded":
			return event.ContextLength, false
		case "content_filter", "content_policy_violation", "responsibleaipolicyviolation":
			return event.Filtered, false
		}
		n, known := words[w]
		if !known {
			if v, err := strconv.Atoi(w); err == nil && v >= 400 && v < 600 {
				n, known = v, true
			}
		}
		if !known {
			continue
		}
		if n == 402 || n == 529 {
			return byStatus(n)
		}
		if twin == 0 {
			twin = n
		}
	}
	if status == 0 {
		status = twin
	}
	return byStatus(status)
}

func byStatus(status int) (event.Class, bool) {
	switch {
	case status == 401, status == 403:
		return event.Auth, false
	case status == 402:
		// No credit left: as a limit it is the nearest to 429, but no wait mends it.
		return event.RateLimited, false
	case status == 408:
		return event.Timeout, true
	case status == 409, status == 425:
		return event.ServerError, true
	case status == 429:
		return event.RateLimited, true
	case status == 529:
		return event.Overloaded, true
	case status >= 300 && status < 500:
		return event.InvalidRequest, false
	}
	return event.ServerError, true
}

// RetryAfter is how long an answer asks to wait, in milliseconds, or 0. It is not
// capped beyond a day; the turn's policy caps it.
func RetryAfter(h http.Header) int64 {
	const dayMS = 24 * 60 * 60 * 1000
	bound := func(ms float64) int64 { return int64(min(max(ms, 0), dayMS)) } // NaN: ParseFloat gives it only for "nan"
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms == ms {
		return bound(ms)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s == s {
		return bound(s * 1000)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now := time.Now()
	if d, err := http.ParseTime(h.Get("Date")); err == nil {
		now = d // the server's own clock, so that a skew between hosts adds no wait
	}
	return bound(float64(at.Sub(now).Milliseconds()))
}

// RequestID is the provider's name for an answer, for support requests.
func RequestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Generation-Id", "Apim-Request-Id", "X-Amzn-Requestid", "Cf-Ray"} {
		if v := OneLine(h.Get(name), 200); v != "" {
			return v
		}
	}
	return ""
}

// OneLine makes one printable line of at most bytesMax bytes.
func OneLine(s string, bytesMax int) string {
	if len(s) > 4*bytesMax {
		s = s[:4*bytesMax]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) <= bytesMax {
		return s
	}
	const more = "…"
	cut := bytesMax - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Said prepares a provider's message for a detail. It is cut at the first brace:
// providers quote the request they refuse, and argument text must not leave the log.
func Said(message string) string {
	if i := strings.IndexByte(message, '{'); i >= 0 {
		message = message[:i] + "…"
	}
	return OneLine(message, detailBytesMax)
}
