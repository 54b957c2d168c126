// Package archtest holds the module against the table of its rooms and arrows.
//
// Invariant: a package imports what its row allows and nothing else, for the reason
// that the row gives. The tables are in this file; docs/architecture.md, "Rooms and
// arrows", shows them as a picture.
package archtest

// arrows lists every import allowed between project packages outside tests. "x/*" as
// a target is every package under x. A row that nobody needs is stale and must go.
var arrows = map[string]string{
	"subjects/event -> subjects": "an event carries its address and format version",
	"subjects/feed -> subjects":  "an output goes to a lane and carries a format version",
	"subjects/jet -> subjects":   "streams and buckets are created from their description",

	"keystore -> subjects/effect": "it keeps facts of effect keys",

	"reducer/fold -> subjects":        "the address of a turn",
	"reducer/fold -> subjects/event":  "events are its only input",
	"reducer/fold -> subjects/feed":   "outputs are its only result",
	"reducer/fold -> subjects/effect": "keys come from meaning, and the fold alone computes them",

	"reducer/turns -> reducer/fold":   "a turn that is read is folded",
	"reducer/turns -> subjects":       "where a turn lies",
	"reducer/turns -> subjects/event": "what lies there",
	"reducer/turns -> subjects/jet":   "the log it reads",

	"reducer -> reducer/fold":    "it runs the fold",
	"reducer -> reducer/turns":   "it hydrates open turns",
	"reducer -> subjects":        "partitions and subjects",
	"reducer -> subjects/event":  "its input, and the events of its timers",
	"reducer -> subjects/effect": "of an erased turn's effects it keeps what happened and takes the words away",
	"reducer -> subjects/feed":   "its output",
	"reducer -> subjects/jet":    "lease, tail and fenced writer",

	"reducer/render -> subjects/feed": "a renderer follows the feed and nothing else",

	"reducer/audit -> reducer":         "how outputs are tied to their inputs on the log",
	"reducer/audit -> reducer/fold":    "it derives the outputs again",
	"reducer/audit -> reducer/turns":   "it reads turns",
	"reducer/audit -> subjects":        "where a turn and its effects lie",
	"reducer/audit -> subjects/event":  "what went in",
	"reducer/audit -> subjects/feed":   "what came out",
	"reducer/audit -> subjects/effect": "what is known of the effects",
	"reducer/audit -> subjects/jet":    "the three logs",

	"reducer/archive -> reducer/audit":  "an archived turn is a bundle, and nothing is put back that does not audit",
	"reducer/archive -> reducer":        "where the owner goes on after what was put back",
	"reducer/archive -> reducer/fold":   "only turns that have ended are kept and put back",
	"reducer/archive -> reducer/turns":  "it reads turns",
	"reducer/archive -> subjects":       "where a turn lies",
	"reducer/archive -> subjects/event": "which turns were opened when",
	"reducer/archive -> subjects/jet":   "the logs it reads and writes",

	"streamer -> streamer/provider": "one request to one provider",
	"streamer -> reducer/fold":      "the request is built from the turn's state",
	"streamer -> reducer/turns":     "it reads the turn's state",
	"streamer -> subjects":          "partitions and subjects",
	"streamer -> subjects/event":    "what it writes",
	"streamer -> subjects/feed":     "the commands it obeys",
	"streamer -> subjects/jet":      "work, and the ordered writer",

	"streamer/provider -> subjects/event":                    "usage and the classes of a failed attempt",
	"streamer/provider/openaichat -> streamer/provider":      "it implements the port",
	"streamer/provider/openaichat -> subjects/event":         "usage and classes",
	"streamer/provider/openairesponses -> streamer/provider": "it implements the port",
	"streamer/provider/openairesponses -> subjects/event":    "usage and classes",
	"streamer/provider/anthropic -> streamer/provider":       "it implements the port",
	"streamer/provider/anthropic -> subjects/event":          "usage and classes",
	"streamer/provider/gemini -> streamer/provider":          "it implements the port",
	"streamer/provider/gemini -> subjects/event":             "usage and classes",

	"streamer/provider/adaptertest -> streamer/provider":              "the port that it holds adapters to",
	"streamer/provider/adaptertest -> streamer/provider/providertest": "the provider that it lets them read",
	"streamer/provider/adaptertest -> subjects/event":                 "what they make of it",

	"executor -> executor/tool":   "how a tool is declared and run",
	"executor -> keystore":        "this host's memory of effects",
	"executor -> reducer/turns":   "whether a call was settled, after a fault of the log",
	"executor -> subjects":        "partitions and subjects",
	"executor -> subjects/event":  "what it settles",
	"executor -> subjects/feed":   "the commands it obeys",
	"executor -> subjects/effect": "facts of keys and their join",
	"executor -> subjects/jet":    "work, claims and reports",

	"executor/tool -> subjects/effect":      "pointers and identities of arguments",
	"executor/tool -> executor/tool/strict": "a tools file with an unknown key fails with its line",

	"cmd/turnfold -> *":       "wiring",
	"cmd/turnfold/demo -> *":  "it runs the whole product against itself",
	"cmd/turnfold/bench -> *": "it runs the whole product against itself",

	"cmd/turnfold/config -> executor/tool":        "the tools file is part of the configuration",
	"cmd/turnfold/config -> executor/tool/strict": "an unknown key fails with its line",

	"cmd/turnfold/gateway -> cmd/turnfold/gateway/page": "the web page that it serves",

	"cmd/turnfold/gateway -> reducer/fold":    "the state it shows",
	"cmd/turnfold/gateway -> reducer/turns":   "it reads turns",
	"cmd/turnfold/gateway -> reducer/render":  "the encodings of a feed",
	"cmd/turnfold/gateway -> subjects":        "addresses",
	"cmd/turnfold/gateway -> subjects/event":  "turn.opened, cancels and approvals",
	"cmd/turnfold/gateway -> subjects/feed":   "what it streams",
	"cmd/turnfold/gateway -> subjects/effect": "the history of a key",
	"cmd/turnfold/gateway -> subjects/jet":    "one tail per partition",

	"cmd/internal/stage -> subjects/embed": "addresses for what tests start",
}

// testArrows are what tests may import beside that. A "*" as the source is any package.
var testArrows = map[string]string{
	"* -> subjects":       "addresses",
	"* -> subjects/event": "scripts of events",
	"* -> subjects/embed": "tests run against a real server",
	"* -> reducer/fold":   "what a log means is asked of the fold",

	"subjects/event -> subjects/wiretest": "the bytes that logs hold",
	"subjects/feed -> subjects/wiretest":  "the bytes that logs hold",

	"cmd/internal/* -> *":                                   "tests of the whole product",
	"reducer -> reducer/audit":                              "its own outputs are audited",
	"reducer/audit -> *":                                    "an audit is tested on the logs of the real components",
	"streamer -> streamer/provider/*":                       "a real adapter against a scripted provider",
	"streamer/provider/* -> streamer/provider/adaptertest":  "what every adapter must hold",
	"streamer/provider/* -> streamer/provider/providertest": "the provider that sends what it is told to",
	"streamer/provider -> streamer/provider/*":              "the adapters are timed side by side",
	"streamer/provider -> subjects/effect":                  "what is refused has no key",
}

// owner restricts who may import a module outside tests.
type owner struct {
	packages []string
	why      string
}

// modules lists every external module that the product may import, and who may.
// Nobody in particular means everybody but the pure packages.
var modules = map[string]owner{
	"github.com/nats-io/nats.go":               {[]string{"subjects/jet"}, "one client, one place that knows its faults"},
	"github.com/nats-io/nuid":                  {[]string{"subjects/jet"}, "comes with the client"},
	"github.com/synadia-io/orbit.go":           {[]string{"subjects/jet"}, "batches are wrapped there"},
	"github.com/nats-io/nats-server/v2":        {[]string{"subjects/embed"}, "one embedded server"},
	"github.com/cockroachdb/pebble/v2":         {[]string{"keystore"}, "one store, one place that syncs"},
	"github.com/tmaxmax/go-sse":                {[]string{"streamer/provider"}, "the grammar of a provider's stream"},
	"github.com/cockroachdb/apd/v3":            {[]string{"subjects/effect"}, "exact decimals"},
	"golang.org/x/text":                        {[]string{"subjects/effect"}, "Unicode tables frozen by go.mod"},
	"github.com/santhosh-tekuri/jsonschema/v6": {[]string{"executor/tool"}, "arguments against their schema"},
	"github.com/modelcontextprotocol/go-sdk":   {[]string{"executor/tool", "executor/tool/mcp"}, "tools of MCP servers"},
	"go.yaml.in/yaml/v4":                       {[]string{"executor/tool/strict", "cmd/turnfold", "cmd/turnfold/config"}, "configuration files"},
	"github.com/klauspost/compress":            {[]string{"reducer/archive"}, "archives are compressed with zstd"},
	"github.com/spf13/cobra":                   {[]string{"cmd/turnfold"}, "verbs and flags"},
	"github.com/go-json-experiment/json":       {nil, "one JSON library, with exact bytes"},
	"github.com/rs/zerolog":                    {nil, "one logger"},
	"github.com/google/uuid":                   {nil, "ids in order of time"},
	"github.com/prometheus/client_golang":      {nil, "metrics"},
	"go.opentelemetry.io/otel":                 {nil, "traces"},
	"golang.org/x/sync":                        {nil, "groups of goroutines"},
	"golang.org/x/time":                        {nil, "the fleet's budget of requests"},
}

// testModules are what only tests may import.
var testModules = map[string]string{
	"pgregory.net/rapid":                "laws",
	"go.uber.org/goleak":                "no goroutine stays",
	"github.com/rogpeppe/go-internal":   "scripts of the command line",
	"github.com/anishathalye/porcupine": "linearizability of claims",
}

// pure packages give equal results in any process and any year: they know no time, no
// chance and no outside world (docs/invariants.md, I8), and no inexact number.
var pure = map[string]bool{"reducer/fold": true, "subjects/effect": true, "subjects/event": true, "subjects/feed": true}

// impure are standard library packages, with all under them, that no pure one imports.
var impure = []string{"context", "crypto/rand", "database", "expvar", "flag", "io/fs", "io/ioutil", "log", "math/rand", "net", "os",
	"path/filepath", "plugin", "runtime", "sync", "syscall", "testing", "time", "unsafe"}

// folders and files are all that lies at the top.
var (
	folders = []string{"cmd", "deploy", "docs", "executor", "keystore", "reducer", "streamer", "subjects"}
	files   = []string{"LICENSE", "README.md", "go.mod", "go.sum"}
)

// linesMax is the length from which a file has a second noun in it.
const linesMax = 600
