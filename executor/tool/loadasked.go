package tool

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/effect"
)

// keyArgumentDefault is the argument that carries the key, where one does.
const keyArgumentDefault = "idempotency_key"

func parseNATS(v strict.Value, folder string) *NATS {
	o := v.Object(membersOf("run.nats")...)
	n := &NATS{KeyHeader: KeyHeaderDefault, Headers: map[string]string{}}
	at := o.Need("subject", "write the subject that the service answers on, as in svc.refund")
	if n.Subject = at.String(); at.Present() {
		checkSubject(at, n.Subject)
	}
	if u := o.Get("url"); u.Present() {
		if n.URL = u.String(); strings.Contains(n.URL, "@") {
			u.Fault("put them into a credentials file and name that in creds", "holds credentials")
		}
	}
	if c := o.Get("creds"); c.Present() {
		n.Creds = c.String()
		if n.Creds != "" && !filepath.IsAbs(n.Creds) {
			n.Creds = filepath.Join(folder, n.Creds)
		}
		if n.URL == "" {
			c.Fault("add url, or remove creds", "is for another server, but url names none")
		}
	}
	if k := o.Get("key_header"); k.Present() {
		n.KeyHeader = k.String()
		if !headerForm.MatchString(n.KeyHeader) || reserved(n.KeyHeader) || natsReserved(n.KeyHeader) {
			k.Fault("write a header name, such as "+KeyHeaderDefault, "%q cannot carry the key", n.KeyHeader)
		}
	}
	parseHeaders(o, n.KeyHeader, n.Headers, nil)
	for _, m := range o.Get("headers").Members() {
		if natsReserved(m.Key) {
			m.Fault("remove it", "the server gives headers of this name a meaning")
		}
	}
	return n
}

// natsReserved tells the headers by which clients command the server.
func natsReserved(name string) bool { return strings.HasPrefix(strings.ToLower(name), "nats-") }

func checkSubject(at strict.Value, subject string) {
	const fix = "write one literal subject, as in svc.refund"
	tokens := strings.Split(subject, ".")
	switch {
	case slices.Contains(tokens, "") || strings.ContainsAny(subject, " \t\r\n\x00"):
		at.Fault(fix, "%q is not a subject", subject)
	case slices.Contains(tokens, "*") || slices.Contains(tokens, ">"):
		at.Fault(fix, "%q has wildcards; a request goes to one subject", subject)
	case strings.HasPrefix(subject, "$") || tokens[0] == "_INBOX" || tokens[0] == "tf":
		at.Fault(fix, "%q belongs to the server or to turnfold's own logs", subject)
	}
}

func parseServers(v strict.Value, folder string) map[string]*MCPServer {
	out := map[string]*MCPServer{}
	for _, m := range v.Members() {
		if !nameForm.MatchString(m.Key) {
			m.Fault("use 1 to 64 of A-Z a-z 0-9 _ -", "%q is not a name of a server", m.Key)
		}
		out[m.Key] = parseServer(m, folder)
	}
	return out
}

func parseServer(m strict.Member, folder string) *MCPServer {
	o := m.Object(membersOf("mcp_servers.*")...)
	s := &MCPServer{Name: m.Key, Line: m.Line(), Env: map[string]string{}, Headers: map[string]string{}, HeadersEnv: map[string]string{}}
	command, at := o.Get("command"), o.Get("url")
	own := []string{"dir", "env", "pass_env"}
	switch {
	case command.Present() && at.Present():
		m.Fault("keep one of command and url", "says two ways to reach the server")
	case command.Present():
		s.Argv = parseArgv(command)
		s.Dir = parseDir(o.Get("dir"), folder)
		s.PassEnv = parseEnv(o, s.Env)
		own = []string{"headers", "headers_env"}
	case at.Present():
		s.URL = at.String()
		checkURL(at, s.URL)
		parseHeaders(o, KeyHeaderDefault, s.Headers, s.HeadersEnv)
		for _, list := range []string{"headers", "headers_env"} {
			for _, h := range o.Get(list).Members() {
				if mcpReserved(h.Key) {
					h.Fault("remove it", "the protocol sets this header itself")
				}
			}
		}
	default:
		m.Fault("write command: [program, argument] or url: https://…", "says no way to reach the server")
	}
	for _, name := range own {
		if x := o.Get(name); x.Present() && command.Present() != at.Present() {
			x.Fault("remove it", "means nothing for a server that is reached this way")
		}
	}
	return s
}

// mcpReserved tells the headers that the protocol gives a meaning.
func mcpReserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "mcp-") || name == "accept" || name == "last-event-id"
}

func parseMCP(v strict.Value, servers map[string]*MCPServer, class effect.Class) *MCP {
	o := v.Object(membersOf("run.mcp")...)
	m := &MCP{}
	at := o.Need("server", "name a server of mcp_servers")
	name := at.String()
	if m.Server = servers[name]; m.Server == nil && at.Present() {
		known := make([]string, 0, len(servers))
		for n := range servers {
			known = append(known, n)
		}
		slices.Sort(known)
		fix := "add it to mcp_servers"
		if near := strict.Nearest(name, known); near != "" {
			fix = "did you mean " + near + "?"
		}
		at.Fault(fix, "mcp_servers has no %q", name)
	}
	t := o.Need("tool", "write the tool's name at the server")
	if m.Tool = t.String(); t.Present() && m.Tool == "" {
		t.Fault("write the tool's name at the server", "is empty")
	}
	parseKeyWays(o, m)
	fallback := "unknown"
	if class == effect.Read {
		fallback = "failed" // nothing is ever done, so nothing can be in doubt
	}
	m.ErrorsFail = o.Get("errors").Enum(fallback, "failed", "unknown") == "failed"
	return m
}

func parseKeyWays(o strict.Object, m *MCP) {
	key := o.Get("key")
	ways := []strict.Value{key}
	if key.IsList() {
		ways = key.List()
	}
	byArgument := false
	for _, way := range ways {
		switch way.Enum("", "meta", "header", "argument") {
		case "meta":
			m.KeyMeta = true
		case "header":
			m.KeyHeader = true
		case "argument":
			byArgument = true
		}
	}
	switch {
	case !key.Present():
		m.KeyMeta, m.KeyHeader = true, true
	case key.IsList() && len(ways) == 0:
		key.Fault("write meta, header or argument, or a list of them", "is empty: the server would never see the key")
	}
	argument := o.Get("argument")
	switch {
	case argument.Present() && !byArgument:
		argument.Fault("add argument to key, as in key: [meta, argument]", "names an argument, but the key is not sent as one")
	case byArgument:
		if m.KeyArgument = argument.String(); m.KeyArgument == "" {
			m.KeyArgument = keyArgumentDefault
		}
	}
}

// checkKeyArgument refuses to send the key in a field that the model fills in.
func checkKeyArgument(d *Declaration, at strict.Value) {
	field := d.Run.MCP.KeyArgument
	if field == "" || !slices.Contains(shapeOf(d).names, field) && !slices.Contains(d.Identity.Fields, field) {
		return
	}
	at.Fault("take the field out of parameters and identity, so that turnfold alone fills it in, or name another argument",
		"the key would overwrite the parameter %q", field)
}
