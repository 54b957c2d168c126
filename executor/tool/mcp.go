package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

// MetaKey is the member of _meta that carries the effect key to an MCP server.
const MetaKey = "dev.turnfold/idempotency-key"

// Error classes of MCP tools.
const (
	ClassTool          = "tool_error"        // the tool reports an error and names no class
	ClassInputRequired = "input_required"    // the server asks back; nobody answers it
	ClassArguments     = "invalid_arguments" // the arguments cannot be sent
)

// strayGrace is how long a call may still take after its time, before the program that
// does not read its input is killed.
const strayGrace = 2 * time.Second

type mcpRunner struct {
	link    *link
	mcp     *MCP
	class   effect.Class
	timeout time.Duration
}

func newMCPRunner(d *Declaration, cfg RunnerConfig) (*mcpRunner, error) {
	m := d.Run.MCP
	if m.Server == nil {
		return nil, fmt.Errorf("tool %s: run.mcp names no server", d.Name)
	}
	if cfg.links == nil {
		cfg.links = &links{}
	}
	l, err := cfg.links.join(m.Server, cfg)
	if err != nil {
		return nil, fmt.Errorf("tool %s: mcp_servers.%s.%w", d.Name, m.Server.Name, err)
	}
	return &mcpRunner{link: l, mcp: m, class: d.Effect, timeout: d.Timeout}, nil
}

// Close ends the session with the server if no other tool uses it.
func (r *mcpRunner) Close() error {
	r.link.leave()
	return nil
}

// Run calls the tool once. It calls again only where the first call certainly reached
// no tool: the session had ended before it was sent, or the server knows the session
// no more.
func (r *mcpRunner) Run(ctx context.Context, c Call) Result {
	ctx, cancel := withTimeout(ctx, c, r.timeout)
	defer cancel()
	args, err := r.arguments(c)
	if err != nil {
		return unsent(ClassArguments, err.Error())
	}
	for again := false; ; again = true {
		s, err := r.link.session(ctx)
		if err != nil {
			return r.unreachable(ctx, err)
		}
		f := r.flight(c)
		err = s.call(ctx, f, r.mcp.Tool, r.meta(c), args)
		if !again && f.retry(s, err) {
			r.link.drop(s)
			continue
		}
		return r.result(ctx, f, err)
	}
}

// arguments is the text that the tool gets: as it came, with the key in its field.
func (r *mcpRunner) arguments(c Call) (json.RawMessage, error) {
	args := argsOf(c)
	if _, err := effect.Canonical(args); err != nil {
		return nil, err // the SDK would send other text, or none
	}
	field := r.mcp.KeyArgument
	if field == "" {
		return json.RawMessage(args), nil
	}
	if _, ok := effect.Lookup(args, pointer([]string{field})); ok {
		return nil, fmt.Errorf("%w: %s is filled in by turnfold", effect.ErrInvalidArguments, field)
	}
	name, err := jsontext.AppendQuote(nil, field)
	if err != nil {
		return nil, err
	}
	key, err := jsontext.AppendQuote(nil, c.Key)
	if err != nil {
		return nil, err
	}
	head := strings.TrimSuffix(strings.TrimSpace(args), "}")
	comma := ","
	if strings.TrimSpace(head) == "{" {
		comma = ""
	}
	return json.RawMessage(head + comma + string(name) + ":" + string(key) + "}"), nil
}

func (r *mcpRunner) meta(c Call) mcp.Meta {
	if !r.mcp.KeyMeta {
		return nil
	}
	return mcp.Meta{MetaKey: c.Key}
}

func (r *mcpRunner) flight(c Call) *flight {
	f := &flight{tool: r.mcp.Tool, header: http.Header{}, once: r.class == effect.Once, progress: c.Progress}
	if r.mcp.KeyHeader {
		f.header.Set(KeyHeaderDefault, c.Key)
	}
	f.header.Set("Turnfold-Turn", c.Turn)
	f.header.Set("Turnfold-Step", strconv.Itoa(c.Step))
	f.header.Set("Turnfold-Attempt", strconv.Itoa(c.Attempt))
	f.header.Set("Turnfold-Call", c.Call)
	return f
}

// unreachable is the result of a call that found no session.
func (r *mcpRunner) unreachable(ctx context.Context, err error) Result {
	class := classOf(ctx)
	if class != ClassInterrupted {
		class = ClassConnection
		if errors.Is(err, errNotStarted) {
			class = ClassNotStarted
		}
	}
	return unsent(class, "not sent: "+err.Error())
}

// result is what is known after a call.
func (r *mcpRunner) result(ctx context.Context, f *flight, err error) Result {
	sent, answer := f.known()
	class := classOf(ctx)
	result, read := r.read(answer)
	switch {
	case read && (result.Outcome == effect.Succeeded || class == ""):
		return result
	case read:
		// The server was told to stop, and what it says may be how its tool stopped:
		// no proof that nothing was done.
		return inDoubt(class, "stopped in the call; then the server said: "+result.Detail)
	case err == nil:
		err = errors.New("the answer cannot be read")
	}
	if !sent {
		if class != ClassInterrupted {
			class = ClassConnection
		}
		return unsent(class, "not sent: "+plain(err))
	}
	switch class {
	case ClassTimeout:
		return inDoubt(class, "sent, but no answer in time")
	case ClassInterrupted:
		return inDoubt(class, "sent, but turnfold stopped before the answer")
	}
	return inDoubt(ClassConnection, "sent, but the connection was lost before the answer: "+plain(err))
}

// read is what an answer says, false where there is none.
func (r *mcpRunner) read(a flightAnswer) (Result, bool) {
	switch {
	case a.raw != nil:
		return r.answered(a.raw), true
	case a.fault != nil:
		return r.refused(a.fault.Code, a.fault.Message), true
	case a.status != 0:
		return r.turnedAway(a.status), true
	}
	return Result{}, false
}

// plain is an error on one line of bounded length.
func plain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
