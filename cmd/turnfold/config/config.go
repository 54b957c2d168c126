// Package config reads turnfold's configuration: flags over environment over file
// over defaults.
//
// Invariant: a Config that Load returns is whole and valid, and each of its values
// knows where it came from. Whatever is wrong is reported at once, each fault with
// its place, the member's name and the way to mend it. Secrets are never members:
// the configuration names the environment variables that hold them, and they are
// read when they are used.
package config

import (
	"strings"
	"time"
)

// Config is the configuration of one process.
type Config struct {
	File string // the file that was read; empty = none

	Listen       string // address of the HTTP API
	NATS         NATS
	Partitions   int // fixed when the deployment is created
	Replicas     int // copies of each log
	Streams      Streams
	Providers    map[string]Provider
	Routes       map[string][]string // attempt k uses entry k; the last one repeats
	DefaultRoute string              // "default" if there is one, else empty
	Retry        Retry
	Turn         Turn
	// Currency is what prices are in; nothing is converted.
	Currency  string
	ToolsFile string // empty = no tools
	Limits    Limits
	Log       Log
	Lease     Lease
	Retention Retention
	// Alive is how often a quiet attempt says that it lives; it is lost after three.
	Alive time.Duration
	// Patience is how long a command may stay unanswered before it is issued again.
	Patience time.Duration
	// ShutdownGrace bounds how long running turns may go on after SIGTERM.
	ShutdownGrace time.Duration
	TLS           TLS
	TokensFile    string // maps bearer tokens to tenants
	// CORSOrigins lists the web origins whose pages may call the API, with commas between
	// them; "*" is all of them and needs tokens. Empty: none.
	CORSOrigins string

	origins map[string]Origin
}

// NATS is where the logs are.
type NATS struct {
	URL         string // empty = embedded server
	StoreDir    string // of the embedded server and the key store
	Creds       string // credentials file
	NKey        string // file with the seed of an nkey user
	User        string
	PasswordEnv string // variable that holds the user's password
	TLS         ClientTLS
	// Sync is when the embedded server syncs its files: always, or default (every two
	// minutes; a power cut may then lose the last seconds of text).
	Sync string
}

// ClientTLS is how this process trusts its NATS servers, and shows who it is. Empty:
// the system's roots, for servers with tls:// addresses or that ask for TLS.
type ClientTLS struct {
	CA   string // file of certificates to trust instead of the system's
	Cert string // of this process, for servers that verify clients
	Key  string
}

// Streams is who looks after the streams and buckets of the logs.
type Streams struct {
	// Manage: turnfold creates what is missing and adapts ages and replicas. Otherwise it
	// only checks, and refuses to start if something differs.
	Manage bool
}

// Embedded reports whether turnfold runs its own server.
func (n NATS) Embedded() bool { return n.URL == "" }

// Origins lists the web origins of CORSOrigins.
func (c *Config) Origins() []string {
	return strings.FieldsFunc(c.CORSOrigins, func(r rune) bool { return r == ',' || r == ' ' })
}

// Provider is a model API and how it is called.
type Provider struct {
	Name            string
	API             string // openai-chat, openai-responses, anthropic-messages, gemini
	BaseURL         string
	APIKeyEnv       string // variable that holds the key; empty = none is sent
	Model           string
	MaxOutputTokens int
	StallTimeout    time.Duration // longest silence inside a stream
	ConnectTimeout  time.Duration
	HeaderTimeout   time.Duration     // from the request to the head of the answer
	TotalTimeout    time.Duration     // of one attempt
	Headers         map[string]string // sent with each request
	Price           Price
}

// Price is what a million tokens of each kind cost.
type Price struct {
	Input     Rate
	CacheRead Rate // tokens that the provider read from its cache; not given = as Input
	Output    Rate
}

// Given reports whether the provider has a price.
func (p Price) Given() bool { return p.Input.Given }

// Rate is the price of a million tokens, exactly.
type Rate struct {
	// Picos are trillionths of the currency's unit per token = millionths of it per
	// million tokens.
	Picos int64
	Given bool
	text  string
}

// Retry bounds what a turn may spend on attempts.
type Retry struct {
	AttemptsPerStep int
	AttemptsPerTurn int
	TokensPerTurn   int // 0 = no cap
	Budget          RetryBudget
	Backoff         Backoff
	AfterText       string // reset, or salvage: never retry once text was shown
}

// RetryBudget bounds the retries of all streamers together: over ten seconds they are at
// most Fraction of the first attempts, and PerSecond beside that.
type RetryBudget struct {
	Fraction  float64
	PerSecond int
}

// Backoff spaces attempts.
type Backoff struct {
	Base          time.Duration
	Max           time.Duration
	RetryAfterMax time.Duration // cap of a wait that a provider asks for
}

// Turn bounds one turn.
type Turn struct {
	Deadline time.Duration
	Calls    int
}

// Limits bound what a process takes on.
type Limits struct {
	BodyBytes       int // of one HTTP request
	TurnsPerTenant  int // open at a time in the deployment; 0 = no limit
	ConcurrentSteps int
	ConcurrentCalls int
	// ConcurrentCallsPerTenant is how many of them may be of one tenant; 0 = all.
	ConcurrentCallsPerTenant int
}

// Log is how the process logs.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // json, console
}

// Retention is how long each log is kept; zero keeps it for ever. Whatever refers to
// something must be gone before it: events before outputs, outputs before effects.
type Retention struct{ Events, Outputs, Effects time.Duration }

// Lease is how partitions are owned.
type Lease struct {
	TTL time.Duration // a partition whose owner is gone gets another after this long
}

// TLS is the certificate of the HTTP API; both empty = plain HTTP.
type TLS struct {
	Cert string
	Key  string
}

// The words that members choose from.
var (
	APIs       = []string{"openai-chat", "openai-responses", "anthropic-messages", "gemini"}
	syncs      = []string{"default", "always"}
	afterTexts = []string{"reset", "salvage"}
	levels     = []string{"debug", "info", "warn", "error"}
	formats    = []string{"json", "console"}
)

// baseURLs is where each API's own maker serves it.
var baseURLs = map[string]string{
	"openai-chat":        "https://api.openai.com/v1",
	"openai-responses":   "https://api.openai.com/v1",
	"anthropic-messages": "https://api.anthropic.com",
	"gemini":             "https://generativelanguage.googleapis.com",
}
