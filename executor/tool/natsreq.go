package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// What a Requester says about a request that brought no reply. Any other error means
// that the request may have been taken.
var (
	// ErrNoResponders: nobody listened on the subject, so nobody got the request.
	ErrNoResponders = errors.New("tool: no responders")
	// ErrNotSent: the request never left, for example because there is no connection.
	ErrNotSent = errors.New("tool: request not sent")
)

// Reply is an answer to a request.
type Reply struct {
	Header map[string]string
	Data   []byte
}

// Requester asks over a NATS connection. Request publishes once and waits for one
// reply or for the end of ctx; it never publishes again.
type Requester interface {
	Request(ctx context.Context, subject string, header map[string]string, data []byte) (Reply, error)
}

// Headers by which a NATS service reports an error.
const (
	natsErrorHeader     = "Nats-Service-Error"
	natsErrorCodeHeader = "Nats-Service-Error-Code"
)

type natsRunner struct {
	ask       Requester
	own       io.Closer // the connection, if it is this tool's alone
	subject   string
	keyHeader string
	headers   map[string]string
	timeout   time.Duration
}

func newNATSRunner(d *Declaration, cfg RunnerConfig) (*natsRunner, error) {
	n := d.Run.NATS
	r := &natsRunner{ask: cfg.Requester, subject: n.Subject, keyHeader: n.KeyHeader, headers: n.Headers, timeout: d.Timeout}
	if r.keyHeader == "" {
		r.keyHeader = KeyHeaderDefault
	}
	if n.URL == "" {
		if r.ask == nil {
			return nil, fmt.Errorf("tool %s: run.nats needs the deployment's connection, and there is none here; write a url", d.Name)
		}
		return r, nil
	}
	if cfg.DialNATS == nil {
		return nil, fmt.Errorf("tool %s: run.nats.url: other servers cannot be reached from here; remove it", d.Name)
	}
	var err error
	if r.ask, err = cfg.DialNATS(n.URL, n.Creds); err != nil {
		return nil, fmt.Errorf("tool %s: run.nats: %w", d.Name, err)
	}
	r.own, _ = r.ask.(io.Closer)
	return r, nil
}

// Close ends a connection that is the tool's own.
func (r *natsRunner) Close() error {
	if r.own == nil {
		return nil
	}
	return r.own.Close()
}

// Run publishes the request once and waits for the reply.
func (r *natsRunner) Run(ctx context.Context, c Call) Result {
	ctx, cancel := withTimeout(ctx, c, r.timeout)
	defer cancel()
	if class := classOf(ctx); class != "" {
		return unsent(class, "not sent: the time was up")
	}
	header := make(map[string]string, len(r.headers)+5)
	for name, value := range r.headers {
		header[name] = value
	}
	header[r.keyHeader] = c.Key
	header["Turnfold-Turn"] = c.Turn
	header["Turnfold-Step"] = strconv.Itoa(c.Step)
	header["Turnfold-Attempt"] = strconv.Itoa(c.Attempt)
	header["Turnfold-Call"] = c.Call
	reply, err := r.ask.Request(ctx, r.subject, header, []byte(argsOf(c)))
	if err != nil {
		return lostRequest(ctx, err)
	}
	return natsResult(reply)
}

func lostRequest(ctx context.Context, err error) Result {
	switch {
	case errors.Is(err, ErrNoResponders):
		return unsent(ClassConnection, "not run: nobody answers on the subject")
	case errors.Is(err, ErrNotSent):
		return unsent(ClassConnection, "not sent: "+err.Error())
	}
	switch class := classOf(ctx); class {
	case ClassTimeout:
		return inDoubt(class, "sent, but no answer in time")
	case ClassInterrupted:
		return inDoubt(class, "sent, but turnfold stopped before the answer")
	}
	return inDoubt(ClassConnection, "sent, but no answer: "+err.Error())
}

// natsResult reads a reply. A service says in headers that it failed, with codes as in
// HTTP: 4xx means that it refused, anything else leaves the outcome open. So do 408 and
// 409, by which a service says that a request with this key is at work.
func natsResult(reply Reply) Result {
	over := len(reply.Data) > answerBytesMax
	result := Result{Outcome: effect.Succeeded, Body: answerText(reply.Data, over), Detail: "replied", Ran: true}
	why, failed := field(reply.Header, natsErrorHeader)
	code, coded := field(reply.Header, natsErrorCodeHeader)
	if !failed && !coded {
		return result
	}
	result.Outcome = effect.Unknown
	if n, err := strconv.Atoi(strings.TrimSpace(code)); err == nil && n >= 400 && n < 500 && n != 408 && n != 409 {
		result.Outcome = effect.Failed
	}
	result.Detail = strings.TrimSpace("service error " + code)
	result.ErrorClass = errorClass(reply.Data, "service_"+word(code))
	if result.Body == "" {
		if result.Body = answerText([]byte(why), false); why == "" {
			result.Body = result.Detail
		}
	}
	return result
}

// field finds a header, however its name is spelt.
func field(header map[string]string, name string) (string, bool) {
	if v, ok := header[name]; ok {
		return v, true
	}
	for k, v := range header {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// word makes a code fit to be part of an error class.
func word(code string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return -1
	}, code)
	if out == "" || len(out) > 32 {
		return "error"
	}
	return out
}
