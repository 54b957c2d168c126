package tool

import (
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/effect"
)

// envForm is a name that every system takes for an environment variable.
var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// headerForm is a header name: an RFC 9110 token.
var headerForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// headerValue reports whether a text can stand in a header.
func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// members lists what may be written, by the place where: the one list that the loader
// knows and docs/tools.md explains.
var members = map[string][]string{
	"":              {"tools", "mcp_servers"},
	"tools[]":       {"name", "description", "parameters", "effect", "identity", "repeat", "timeout", "cap", "rows", "approval", "approval_timeout", "redact", "card", "scope", "window", "concurrency", "proposed", "run", "verify"},
	"run":           {"http", "command", "nats", "mcp"},
	"run.http":      {"url", "key_header", "headers", "headers_env", "secret_env", "follow_redirects"},
	"run.command":   {"argv", "dir", "env", "pass_env"},
	"run.nats":      {"subject", "url", "creds", "key_header", "headers"},
	"verify":        {"http", "command", "nats", "mcp", "found", "timeout", "for"},
	"verify.http":   {"url", "method", "key_header", "headers", "headers_env", "secret_env", "follow_redirects"},
	"run.mcp":       {"server", "tool", "key", "argument", "errors"},
	"mcp_servers.*": {"command", "dir", "env", "pass_env", "url", "headers", "headers_env"},
}

func membersOf(place string) []string { return members[place] }

func parseRun(v strict.Value, folder string, servers map[string]*MCPServer, class effect.Class) Run {
	if !v.Present() {
		return Run{}
	}
	return parseWay(v, v.Object(membersOf("run")...), folder, servers, class, "run")
}

// parseWay reads the one way that an object says, beside other members it may have.
func parseWay(v strict.Value, o strict.Object, folder string, servers map[string]*MCPServer, class effect.Class, place string) Run {
	var said []string
	for _, way := range membersOf("run") {
		if o.Get(way).Present() {
			said = append(said, way)
		}
	}
	switch len(said) {
	case 0:
		v.Fault("write http: {url: …}, command: {argv: […]}, nats: {subject: …} or mcp: {server: …, tool: …}", "says no way to run")
		return Run{}
	case 1:
	default:
		v.Fault("keep one of "+strings.Join(said, " and "), "says %d ways to run", len(said))
		return Run{}
	}
	switch m := o.Get(said[0]); said[0] {
	case "http":
		if place == "verify" {
			return Run{HTTP: parseVerifyHTTP(m)}
		}
		return Run{HTTP: parseHTTP(m.Object(membersOf("run.http")...))}
	case "command":
		return Run{Command: parseCommand(m, folder)}
	case "nats":
		return Run{NATS: parseNATS(m, folder)}
	default:
		return Run{MCP: parseMCP(m, servers, class)}
	}
}

func parseHTTP(o strict.Object) *HTTP {
	h := &HTTP{Method: http.MethodPost, KeyHeader: KeyHeaderDefault, Headers: map[string]string{}, HeadersEnv: map[string]string{}}
	if f := o.Get("follow_redirects"); f.Present() {
		if text, _ := f.Scalar(); text != "no" && text != "false" {
			f.Fault("remove it and write the final address in url",
				"redirects are never followed: a second request is a second effect")
		}
	}
	at := o.Need("url", "write the tool's address, as in http://127.0.0.1:9998/refund")
	h.URL = at.String()
	if at.Present() {
		checkURL(at, h.URL)
	}
	if k := o.Get("key_header"); k.Present() {
		h.KeyHeader = k.String()
		if !headerForm.MatchString(h.KeyHeader) || reserved(h.KeyHeader) {
			k.Fault("write a header name, such as "+KeyHeaderDefault, "%q cannot carry the key", h.KeyHeader)
		}
	}
	parseHeaders(o, h.KeyHeader, h.Headers, h.HeadersEnv)
	h.SecretEnv = parseEnvName(o.Get("secret_env"))
	return h
}

// parseHeaders reads headers and headers_env; key is the header that is taken.
func parseHeaders(o strict.Object, key string, headers, fromEnv map[string]string) {
	seen := map[string]bool{textproto.CanonicalMIMEHeaderKey(key): true}
	for _, m := range o.Get("headers").Members() {
		headers[m.Key] = m.String()
		checkHeader(m, seen)
		if !headerValue(headers[m.Key]) {
			m.Fault("remove line breaks and control characters", "is not a header value")
		}
	}
	if fromEnv == nil {
		return
	}
	for _, m := range o.Get("headers_env").Members() {
		fromEnv[m.Key] = parseEnvName(m.Value)
		checkHeader(m, seen)
	}
}

func checkURL(at strict.Value, text string) {
	const fix = "write it as in http://127.0.0.1:9998/refund"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		at.Fault(fix, "%q is not an http or https address", text)
	case u.User != nil:
		at.Fault("put it into an environment variable and name that in headers_env", "holds a password")
	case u.Fragment != "":
		at.Fault("remove it", "has a fragment (#%s), which is never sent", u.Fragment)
	}
}

func checkHeader(m strict.Member, seen map[string]bool) {
	name := textproto.CanonicalMIMEHeaderKey(m.Key)
	switch {
	case !headerForm.MatchString(m.Key):
		m.Fault("write a header name, such as Authorization", "%q is not a header name", m.Key)
	case reserved(m.Key):
		m.Fault("remove it", "turnfold sets this header itself")
	case seen[name]:
		m.Fault("keep one", "this header is set twice")
	}
	seen[name] = true
}

// reserved tells the headers that the runner or the connection sets.
func reserved(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "content-type", "content-length", "transfer-encoding", "connection", "host", "expect", "te",
		"trailer", "upgrade", "keep-alive", "proxy-connection":
		return true
	}
	return strings.HasPrefix(name, "turnfold-") || strings.HasPrefix(name, "webhook-")
}

func parseEnvName(v strict.Value) string {
	name := v.String()
	if v.Present() && !envForm.MatchString(name) {
		v.Fault("name the variable, as in PAYMENTS_SECRET, not its value", "is not the name of an environment variable")
		return ""
	}
	return name
}

func parseCommand(v strict.Value, folder string) *Command {
	o := v.Object(membersOf("run.command")...)
	c := &Command{Dir: folder, Env: map[string]string{}}
	c.Argv = parseArgv(o.Need("argv", "write the program and its arguments, as in [./refund.sh]"))
	c.Dir = parseDir(o.Get("dir"), folder)
	c.PassEnv = parseEnv(o, c.Env)
	return c
}

func parseArgv(v strict.Value) []string {
	argv := v.Strings()
	if v.IsList() && (len(argv) == 0 || argv[0] == "") {
		v.Fault("write the program first, as in [./refund.sh]", "names no program")
	}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			v.Fault("remove it", "holds a NUL character")
		}
	}
	return argv
}

// parseDir reads a folder; a relative one starts where the file lies.
func parseDir(v strict.Value, folder string) string {
	dir := v.String()
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(folder, dir)
}

// parseEnv reads env into the map and gives pass_env.
func parseEnv(o strict.Object, env map[string]string) (pass []string) {
	for _, m := range o.Get("env").Members() {
		if checkEnv(m.Value, m.Key); strings.ContainsRune(m.String(), 0) {
			m.Fault("remove it", "holds a NUL character")
		}
		env[m.Key] = m.String()
	}
	for _, item := range o.Get("pass_env").List() {
		if name := parseEnvName(item); name != "" {
			checkEnv(item, name)
			pass = append(pass, name)
		}
	}
	return pass
}

func checkEnv(v strict.Value, name string) {
	switch {
	case !envForm.MatchString(name):
		v.Fault("use letters, digits and _", "%q is not the name of an environment variable", name)
	case strings.HasPrefix(name, "TURNFOLD_"):
		v.Fault("use another name", "turnfold sets the variables TURNFOLD_* itself")
	}
}
