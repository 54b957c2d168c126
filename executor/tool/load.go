package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/effect"
)

// nameForm is what every model API accepts as the name of a function.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Bounds of a declaration's numbers.
const (
	timeoutMin = 10 * time.Millisecond
	timeoutMax = 24 * time.Hour
	capMax     = 100

	approvalTimeoutMin, approvalTimeoutMax = time.Second, 30 * 24 * time.Hour
	windowMin, windowMax                   = time.Second, 366 * 24 * time.Hour
	verifyForMin, verifyForMax             = time.Second, 7 * 24 * time.Hour

	concurrencyMax = 100_000
)

// Load reads the declarations in a file. Its error is strict.Faults, every fault of
// the file at once, if the file could be read.
func Load(path string) (*Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tools file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads declarations from the bytes of a file. The name stands in faults, and
// its folder is where relative paths of commands start.
func Parse(name string, data []byte) (*Set, error) {
	var report strict.Report
	root, err := strict.Parse(name, data, &report)
	if err != nil {
		return nil, err
	}
	set := &Set{File: name, index: map[string]*Declaration{}}
	top, folder := root.Object(membersOf("")...), filepath.Dir(name)
	servers := parseServers(top.Get("mcp_servers"), folder)
	for _, v := range top.Get("tools").List() {
		d := parseTool(v, folder, servers)
		if first, ok := set.index[d.Name]; ok && d.Name != "" {
			v.Fault("give one of them another name", "the name %q is taken by the tool on line %d", d.Name, first.Line)
			continue
		}
		set.list = append(set.list, d)
		set.index[d.Name] = d
	}
	if err := report.Err(); err != nil {
		return nil, err
	}
	return set, nil
}

func parseTool(v strict.Value, folder string, servers map[string]*MCPServer) *Declaration {
	o := v.Object(membersOf("tools[]")...)
	if p := o.Get("proposed"); p.Present() {
		p.Fault("confirm effect and identity, then delete this line", "is a proposal that nobody has confirmed")
	}
	d := &Declaration{Line: v.Line()}
	name := o.Need("name", "name the tool, as in name: issue_refund")
	if d.Name = name.String(); name.Present() && !nameForm.MatchString(d.Name) {
		name.Fault("use 1 to 64 of A-Z a-z 0-9 _ -", "%q is not a tool name", d.Name)
	}
	d.Description = o.Get("description").String()
	d.Parameters = parseParameters(o.Get("parameters"))
	d.Effect = effect.Class(o.Need("effect", "write effect: read, keyed or once").
		Enum("", string(effect.Read), string(effect.Keyed), string(effect.Once)))
	d.Identity, d.IdentityDeclared = parseIdentity(o.Get("identity"))
	repeat := RepeatNever
	if d.Effect == effect.Read {
		repeat = RepeatPerCall
	}
	d.Repeat = Repeat(o.Get("repeat").Enum(string(repeat),
		string(RepeatNever), string(RepeatPerStep), string(RepeatPerCall)))
	d.Timeout = o.Get("timeout").Duration(TimeoutDefault, timeoutMin, timeoutMax)
	d.Cap = o.Get("cap").Int(CapDefault, 1, capMax)
	d.Rows = parsePointer(o.Get("rows"))
	d.Approval = Approval(o.Get("approval").Enum(string(ApprovalNever), string(ApprovalNever), string(ApprovalAlways)))
	parseApprovalTimeout(o.Get("approval_timeout"), d)
	parseScope(o, d)
	d.Concurrency = o.Get("concurrency").Int(0, 1, concurrencyMax)
	for _, p := range o.Get("redact").List() {
		pointer := parsePointer(p)
		if pointer == "" && p.IsString() && p.String() == "" {
			p.Fault("name a member, as in /note", "redacts all arguments")
		}
		d.Redact = append(d.Redact, pointer)
	}
	d.Card = o.Get("card").String()
	way := o.Need("run", "say how it runs, as in run: {http: {url: …}}")
	d.Run = parseRun(way, folder, servers, d.Effect)
	if v := o.Get("verify"); v.Present() {
		d.Verify = parseVerify(v, folder, servers, d.Effect)
	}
	if d.Run.MCP != nil {
		checkKeyArgument(d, way.At("mcp.argument"))
	}
	return d
}

func parseParameters(v strict.Value) string {
	text := v.JSON()
	if text == "" {
		return ""
	}
	if text[0] != '{' {
		v.Fault("write a JSON Schema of an object", "is not an object")
		return ""
	}
	if _, err := compile(text); err != nil {
		v.Fault("mend the JSON Schema", "%v", err)
		return ""
	}
	return text
}

func parseIdentity(v strict.Value) (effect.Identity, bool) {
	if !v.Present() {
		return effect.Identity{All: true}, false
	}
	const fix = `write a list of parameters, as in [order_id], or "*" for all arguments`
	if !v.IsList() {
		if !v.IsString() || v.String() != "*" {
			v.Fault(fix, "is neither a list nor \"*\"")
		}
		return effect.Identity{All: true}, true
	}
	id := effect.Identity{}
	seen := map[string]bool{}
	for _, item := range v.List() {
		field := item.String()
		switch {
		case field == "*":
			item.Fault(`write identity: "*", without the list`, "\"*\" is not a parameter")
		case seen[field]:
			item.Fault("keep one", "%q is named twice", field)
		}
		seen[field] = true
		id.Fields = append(id.Fields, field)
	}
	if len(id.Fields) == 0 {
		v.Fault(fix, "is empty, which would make all calls one effect")
	}
	return id, true
}

func parsePointer(v strict.Value) string {
	p := v.String()
	if p != "" && !jsontext.Pointer(p).IsValid() {
		v.Fault("write it as in /orders or /orders/0/id; ~ is ~0, / inside a name is ~1", "%q is not a JSON pointer", p)
		return ""
	}
	return p
}
