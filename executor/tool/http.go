package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// backoffMax bounds the wait between two sends that the target did not ask for.
const backoffMax = 5 * time.Second

// backoffMin is the least wait, also where the target says Retry-After: 0.
const backoffMin = 50 * time.Millisecond

type httpRunner struct {
	method    string
	asks      bool // it is a verify's: its address may hold the key
	url       string
	keyHeader string
	headers   http.Header
	sign      signer // nil: unsigned
	timeout   time.Duration
	backoff   time.Duration
	transport *http.Transport
}

func newHTTPRunner(d *Declaration, cfg RunnerConfig) (*httpRunner, error) {
	h := d.Run.HTTP
	r := &httpRunner{method: cmp.Or(h.Method, http.MethodPost), asks: cfg.asks, url: h.URL, keyHeader: h.KeyHeader, headers: http.Header{}, timeout: d.Timeout, backoff: cfg.Backoff,
		transport: newTransport(d.Effect)}
	if r.keyHeader == "" {
		r.keyHeader = KeyHeaderDefault
	}
	var errs []error
	if _, err := url.Parse(h.URL); err != nil {
		errs = append(errs, fmt.Errorf("tool %s: run.http.url: %w", d.Name, err))
	}
	for name, value := range h.Headers {
		r.headers.Set(name, value)
	}
	for name, variable := range h.HeadersEnv {
		value, ok := cfg.Env(variable)
		if !ok || !headerValue(value) {
			errs = append(errs, fmt.Errorf("tool %s: run.http.headers_env.%s: set the environment variable %s to a header value", d.Name, name, variable))
		}
		r.headers.Set(name, value)
	}
	if h.SecretEnv != "" {
		secret, _ := cfg.Env(h.SecretEnv)
		var err error
		if r.sign, err = newSigner(secret); err != nil {
			errs = append(errs, fmt.Errorf("tool %s: run.http.secret_env: %s %w", d.Name, h.SecretEnv, err))
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return cmpText(a.Error(), b.Error()) })
		return nil, errors.Join(errs...)
	}
	return r, nil
}

// Close frees idle connections.
func (r *httpRunner) Close() error {
	r.transport.CloseIdleConnections()
	return nil
}

// Run sends the call, and again with the same key as long as the target says "not
// now" and the call's time lasts.
func (r *httpRunner) Run(ctx context.Context, c Call) Result {
	ctx, cancel := withTimeout(ctx, c, r.timeout)
	defer cancel()
	// inFlight: the target has said that a request with this key is at work. Then a
	// send that came to nothing proves nothing. turnedAway: some send was answered.
	inFlight, turnedAway := false, false
	for backoff := r.backoff; ; backoff = min(2*backoff, backoffMax) {
		a := r.send(ctx, c)
		if a.err != nil {
			return a.lost(ctx, inFlight, turnedAway)
		}
		if !notNow(a.status) {
			return a.final(ctx)
		}
		turnedAway = true
		inFlight = inFlight || a.status == http.StatusConflict || a.status == http.StatusRequestTimeout
		if !wait(ctx, a.retryAfter(backoff)) {
			return a.refusedToTheEnd(ctx, inFlight)
		}
	}
}

// notNow tells the answers that ask to come again with the same key.
func notNow(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}

// wait returns false if ctx ends first, at once if it is sure to.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter is how long to wait before the next send.
func (a httpAnswer) retryAfter(backoff time.Duration) time.Duration {
	text := a.header.Get("Retry-After")
	if s, err := strconv.ParseUint(text, 10, 31); err == nil {
		return max(time.Duration(s)*time.Second, backoffMin)
	}
	if at, err := http.ParseTime(text); err == nil {
		now := time.Now()
		if d, err := http.ParseTime(a.header.Get("Date")); err == nil {
			now = d // the target's own clock: this host's may be wrong
		}
		return max(at.Sub(now), backoffMin)
	}
	return max(backoff, backoffMin)
}

// lost is the result of a send that brought no answer.
func (a httpAnswer) lost(ctx context.Context, inFlight, turnedAway bool) Result {
	class := classOf(ctx)
	if !a.wrote {
		if class != ClassInterrupted {
			class = ClassConnection // a connection that takes too long is none
		}
		why := "not sent: " + a.why()
		if inFlight {
			return inDoubt(class, why+"; an earlier request with this key may still be at work")
		}
		result := unsent(class, why)
		result.Ran = turnedAway
		return result
	}
	switch class {
	case ClassTimeout:
		return inDoubt(class, "sent, but no answer in time")
	case ClassInterrupted:
		return inDoubt(class, "sent, but turnfold stopped before the answer")
	}
	return inDoubt(ClassConnection, "sent, but the connection was lost before the answer: "+a.why())
}

// final is the result of an answer that decides.
func (a httpAnswer) final(ctx context.Context) Result {
	fallback := fmt.Sprintf("http_%d", a.status)
	result := Result{Body: answerText(a.body, a.over), Detail: fmt.Sprintf("status %d", a.status), Ran: true}
	switch {
	case a.status >= 200 && a.status < 300:
		if a.bodyErr != nil {
			// The target may have sent the head before the work was done, and another
			// send with the same key fetches the whole answer.
			class := classOf(ctx)
			if class == "" {
				class = ClassConnection
			}
			return inDoubt(class, fmt.Sprintf("status %d, but the answer broke off", a.status))
		}
		result.Outcome = effect.Succeeded
		return result
	case a.status >= 400 && a.status < 500,
		a.status == http.StatusTemporaryRedirect, a.status == http.StatusPermanentRedirect:
		result.Outcome = effect.Failed // 307 and 308 ask for the same request elsewhere: it was not done here
	default:
		result.Outcome = effect.Unknown // 5xx; other redirects often follow a request that was done
	}
	result.ErrorClass = errorClass(a.body, fallback)
	if result.Body == "" {
		result.Body = result.Detail
	}
	return result
}

// refusedToTheEnd is the result when the target never took the call.
func (a httpAnswer) refusedToTheEnd(ctx context.Context, inFlight bool) Result {
	result := a.final(ctx)
	result.Outcome = effect.Failed // too early, too many: not done, however often it was asked
	result.Detail = fmt.Sprintf("status %d until the time was up", a.status)
	if inFlight {
		result.Outcome = effect.Unknown
	}
	if classOf(ctx) == ClassInterrupted {
		result.ErrorClass = ClassInterrupted
		result.Detail = fmt.Sprintf("status %d, and turnfold stopped before it could ask again", a.status)
	}
	return result
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
