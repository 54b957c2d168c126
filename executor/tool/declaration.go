// Package tool holds what is declared beside a tool, checks arguments and
// declarations, and runs tools.
//
// Invariant: one Run is one try. A runner sends a request or starts a process once,
// except where the target itself said "not now"; nothing below it sends again. What a
// Result claims is never more than is known: failed means that it did not happen, and
// whatever may have happened is unknown (docs/invariants.md, I7 and I10).
package tool

import (
	"slices"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Repeat says whether an equal call later in the turn is the same effect.
type Repeat string

// The values of repeat.
const (
	RepeatNever   Repeat = "never"    // the same effect in the whole turn
	RepeatPerStep Repeat = "per_step" // another effect in another step
	RepeatPerCall Repeat = "per_call" // every call is an effect of its own
)

// Approval says whether a person must agree to each call.
type Approval string

// The values of approval.
const (
	ApprovalNever  Approval = "never"
	ApprovalAlways Approval = "always"
)

// Defaults of a declaration.
const (
	TimeoutDefault = 10 * time.Second
	// ApprovalTimeoutDefault is how long a call waits for a person.
	ApprovalTimeoutDefault = 72 * time.Hour
	// VerifyTimeoutDefault bounds one question of a verify, VerifyForDefault all of them.
	VerifyTimeoutDefault = 5 * time.Second
	VerifyForDefault     = 24 * time.Hour
	CapDefault           = 2
	KeyHeaderDefault     = "Idempotency-Key"
)

// Declaration is a tool as its owner declared it.
type Declaration struct {
	Name        string
	Description string
	// Parameters is the JSON Schema of the arguments as JSON text, members in the
	// file's order. Empty means that the tool has no parameters.
	Parameters string
	Effect     effect.Class
	// Identity is what of the arguments names the effect. Where none was declared, all
	// arguments do: the safe reading, because too many effects can be seen and undone,
	// and two effects taken for one cannot.
	Identity         effect.Identity
	IdentityDeclared bool
	Repeat           Repeat
	Timeout          time.Duration // of one Run, waiting for "not now" included
	Cap              int           // equal failures after which the loop breaker steps in
	Rows             string        // JSON pointer: where an empty result shows; empty = the whole result
	Approval         Approval
	ApprovalTimeout  time.Duration // how long a call may wait for a person
	// Scope is what equal calls are one effect within, effect.ScopeTurn as a rule. Window
	// divides it into stretches of time; 0 = none.
	Scope  string
	Window time.Duration
	// Concurrency is how many runs of the tool one executor has at a time; 0 = no limit.
	Concurrency int
	Verify      *Verify  // nil: an unknown outcome is for a person to resolve
	Redact      []string // JSON pointers into the arguments that nobody is shown
	Card        string   // kind of card that shows the result; empty = none
	Run         Run
	Line        int // where it is declared
}

// Run is how a tool is reached: exactly one member is set.
type Run struct {
	HTTP    *HTTP
	Command *Command
	NATS    *NATS
	MCP     *MCP
}

// Verify is a read-only question to the target: does it know this key?
type Verify struct {
	Run     Run
	Found   string        // JSON pointer into the answer: what must be there for a yes; empty = any answer
	Timeout time.Duration // of one question
	For     time.Duration // how long questions are asked
}

// HTTP is a tool behind a URL.
type HTTP struct {
	// Method is POST as a rule. A verify may use another, and {key} in its URL.
	Method     string
	URL        string
	KeyHeader  string            // carries the effect key
	Headers    map[string]string // sent as they are
	HeadersEnv map[string]string // header name → environment variable that holds its value
	SecretEnv  string            // variable with the Standard Webhooks secret (whsec_…); empty = unsigned
}

// Command is a tool that is a program. It is started without a shell.
type Command struct {
	Argv    []string
	Dir     string            // working directory
	Env     map[string]string // set for the program, beside PATH, HOME and TURNFOLD_*
	PassEnv []string          // variables of turnfold's own environment that it gets too
}

// NATS is a tool that answers requests on a subject.
type NATS struct {
	Subject   string
	URL       string // empty: the deployment's own connection
	Creds     string // credentials file for URL
	KeyHeader string
	Headers   map[string]string
}

// MCP is a tool of an MCP server.
type MCP struct {
	Server *MCPServer // shared by all tools of the server
	Tool   string     // its name there
	// How the effect key travels: in _meta, in an HTTP header, as the argument that
	// KeyArgument names. The argument is never part of the identity.
	KeyMeta, KeyHeader bool
	KeyArgument        string
	// ErrorsFail says that an error reported by the tool means that nothing was done.
	// Otherwise such an error leaves the outcome unknown.
	ErrorsFail bool
}

// MCPServer is an MCP server: a program that is spoken to over its input and output,
// or a URL that takes streamable HTTP.
type MCPServer struct {
	Name       string
	Argv       []string
	Dir        string
	Env        map[string]string
	PassEnv    []string
	URL        string
	Headers    map[string]string
	HeadersEnv map[string]string
	Line       int
}

// Set is the tools of one file.
type Set struct {
	File  string
	list  []*Declaration
	index map[string]*Declaration
}

// All lists the tools in the file's order.
func (s *Set) All() []*Declaration {
	if s == nil {
		return nil
	}
	return slices.Clone(s.list)
}

// Names lists the tools' names in the file's order.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.list))
	for i, d := range s.list {
		names[i] = d.Name
	}
	return names
}

// Get gives a tool by its name.
func (s *Set) Get(name string) (*Declaration, bool) {
	if s == nil {
		return nil, false
	}
	d, ok := s.index[name]
	return d, ok
}
