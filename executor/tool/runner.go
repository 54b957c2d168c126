package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects/effect"
)

// answerBytesMax bounds a tool's answer, in bytes.
const answerBytesMax = 8 << 20

// Error classes of a Result, beside those that a tool names and http_<status>,
// exit_<status> and signal_<number>.
const (
	ClassConnection  = "connection"  // no connection, or it was lost
	ClassTimeout     = "timeout"     // no answer in time
	ClassInterrupted = "interrupted" // turnfold stopped waiting
	ClassNotStarted  = "not_started" // the program could not be started
)

// ErrInterrupted is the cause to cancel a Run with when turnfold itself stops. Any
// other cancellation is taken for the same.
var ErrInterrupted = errors.New("tool: interrupted")

// errTimeout is the cause of a Run that has used up its time.
var errTimeout = errors.New("tool: timeout")

// Call is one try at an effect.
type Call struct {
	Tenant  string
	Turn    string
	Call    string // place in the turn: <step>.<index>
	Tool    string
	Key     string // as the target is to see it
	Args    string // the argument text as the model wrote it
	Step    int
	Attempt int           // the attempt that won the step
	Timeout time.Duration // zero: the declaration's
	// Progress is told what the tool says of its progress while it runs, never after
	// Run has returned and never by two goroutines at a time. Percent is 0 if the tool
	// does not say how much there is to do. It must not block. Nil: nobody asks.
	Progress func(message string, percent int)
}

// Result is what is known after a try.
type Result struct {
	Outcome    effect.Outcome // succeeded, failed or unknown
	ErrorClass string
	Body       string // the tool's answer as it came, valid UTF-8; of a failure without one, why
	Detail     string // for people; never an argument
	// Ran is false if the try certainly never reached the target.
	Ran bool
}

// Runner runs one tool. Run honours the end of ctx and the call's timeout. Runners
// are safe for concurrent use. One that implements io.Closer frees its idle
// connections when closed.
type Runner interface {
	Run(ctx context.Context, c Call) Result
}

// RunnerConfig is what a runner needs of its host. The zero value works.
type RunnerConfig struct {
	// Env looks up environment variables, for secrets. Nil means os.LookupEnv.
	Env func(string) (string, bool)
	// Backoff is the first wait after a "not now" without Retry-After; each further one
	// is twice as long, up to 5 s. Zero means 250 ms.
	Backoff time.Duration
	// Requester is the deployment's connection, for NATS tools without a URL. Nil: such
	// tools are refused.
	Requester Requester
	// DialNATS connects to another server; creds is empty or a credentials file. It
	// need not wait until the server answers. A Requester that is an io.Closer is closed
	// with its runner. Nil: NATS tools with a URL are refused.
	DialNATS func(url, creds string) (Requester, error)

	asks  bool   // the runner is a verify's
	links *links // sessions that the runners share; nil: the runner's own
}

// NewRunner makes the runner of a declared tool. It reports every missing variable.
// Runners made one by one share no MCP session; NewRunners makes those that do.
func NewRunner(d *Declaration, cfg RunnerConfig) (Runner, error) {
	if cfg.Env == nil {
		cfg.Env = os.LookupEnv
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = 250 * time.Millisecond
	}
	switch {
	case d.Run.HTTP != nil:
		return newHTTPRunner(d, cfg)
	case d.Run.Command != nil:
		return newCommandRunner(d, cfg)
	case d.Run.NATS != nil:
		return newNATSRunner(d, cfg)
	case d.Run.MCP != nil:
		return newMCPRunner(d, cfg)
	}
	return nil, fmt.Errorf("tool %s: run says no way to run; write http, command, nats or mcp", d.Name)
}

// NewRunners makes the runners of all tools, by name. Tools of one MCP server share one
// session. Close each that is an io.Closer; the last one of a server ends the session.
func NewRunners(set *Set, cfg RunnerConfig) (map[string]Runner, error) {
	cfg.links = &links{}
	out := map[string]Runner{}
	var errs []error
	for _, d := range set.All() {
		r, err := NewRunner(d, cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[d.Name] = r
	}
	if len(errs) == 0 {
		return out, nil
	}
	for _, r := range out {
		if c, ok := r.(io.Closer); ok {
			_ = c.Close() // nothing has run
		}
	}
	return nil, errors.Join(errs...)
}

// withTimeout bounds a try by its call's timeout, else by the declaration's.
func withTimeout(ctx context.Context, c Call, declared time.Duration) (context.Context, context.CancelFunc) {
	d := c.Timeout
	if d <= 0 {
		d = declared
	}
	if d <= 0 {
		d = TimeoutDefault
	}
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// classOf tells why a context ended: a timeout, or turnfold's own stop. Empty if it
// has not ended.
func classOf(ctx context.Context) string {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return ""
	case errors.Is(cause, errTimeout), errors.Is(cause, context.DeadlineExceeded):
		return ClassTimeout
	}
	return ClassInterrupted
}

// unsent is the result of a try that certainly did not reach the target.
func unsent(class, why string) Result {
	return Result{Outcome: effect.Failed, ErrorClass: class, Body: why, Detail: why}
}

// inDoubt is the result of a try that may have had its effect.
func inDoubt(class, why string) Result {
	return Result{Outcome: effect.Unknown, ErrorClass: class, Detail: why, Ran: true}
}

// argsOf is the body that a target gets: the text as it came, {} for none.
func argsOf(c Call) string {
	if strings.TrimSpace(c.Args) == "" {
		return "{}"
	}
	return c.Args
}

// answerText makes a tool's answer fit to be logged and shown to a model. What
// cannot be shown is replaced by a note that says so, never by a part of it: a cut
// result could read as a whole one.
func answerText(body []byte, over bool) string {
	if over {
		return note(map[string]any{"note": fmt.Sprintf(
			"turnfold: the tool's answer has more than %d bytes and was dropped; the outcome stands", answerBytesMax)})
	}
	if utf8.Valid(body) {
		return string(body)
	}
	sum := sha256.Sum256(body)
	return note(map[string]any{
		"note":   fmt.Sprintf("turnfold: the tool's answer is not UTF-8 text; its %d bytes follow in base64", len(body)),
		"sha256": hex.EncodeToString(sum[:]),
		"base64": base64.StdEncoding.EncodeToString(body),
	})
}

func note(members map[string]any) string {
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		panic(err) // strings only
	}
	return string(out)
}

// errorClass is the class that the tool names in error.class of a JSON answer, or
// the fallback.
func errorClass(body []byte, fallback string) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return fallback
	}
	raw, ok := effect.Lookup(string(body), "/error/class")
	if !ok {
		return fallback
	}
	var class string
	if json.Unmarshal([]byte(raw), &class) != nil || class == "" || len(class) > 100 ||
		strings.ContainsFunc(class, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fallback
	}
	return class
}

// answer collects output up to answerBytesMax and swallows the rest, so that a
// program is not killed for talking too much. The buffer is not embedded: its
// ReadFrom would go round the limit.
type answer struct {
	buf  bytes.Buffer
	over bool
}

func (a *answer) Write(p []byte) (int, error) {
	n := len(p)
	if room := answerBytesMax - a.buf.Len(); n > room {
		a.over = true
		p = p[:room]
	}
	a.buf.Write(p) // never fails
	return n, nil
}
