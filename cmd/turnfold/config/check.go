package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/executor/tool/strict"
)

// check reports what no member alone can know.
func (c *Config) check(report *strict.Report) {
	fault := func(path, fix, format string, args ...any) {
		o := c.origins[path]
		f := strict.Fault{File: o.Name, Line: o.Line, Field: path, Problem: fmt.Sprintf(format, args...), Fix: fix}
		switch o.Kind {
		case "flag":
			f.File = "--" + o.Name
		case "default":
			f.File = "default"
		}
		report.Add(f)
	}
	c.checkListen(fault)
	c.checkNATS(fault)
	if !slices.Contains([]int{1, 3, 5}, c.Replicas) {
		fault("replicas", "write 1, 3 or 5", "is %d; an even number of copies survives no more losses", c.Replicas)
	} else if c.NATS.Embedded() && c.Replicas != 1 {
		fault("replicas", "write replicas: 1, or give nats.url of a cluster", "the embedded server keeps one copy, not %d", c.Replicas)
	}
	c.checkRetention(fault)
	if b := c.Retry.Backoff; b.Base > b.Max {
		fault("retry.backoff.base", "make it at most retry.backoff.max", "is %s, more than the maximum of %s", strict.Short(b.Base), strict.Short(b.Max))
	}
}

// retentionGap is by how much each log outlives the one that refers to it.
const retentionGap = 24 * time.Hour

func (c *Config) checkRetention(fault faulter) {
	r := c.Retention
	outlives := func(a, b time.Duration) bool { return a == 0 || b != 0 && a >= b+retentionGap }
	if r.Events != 0 && r.Events < c.Turn.Deadline+retentionGap {
		fault("retention.events", "keep events at least a day longer than turn.deadline", "is %s; a turn may take %s",
			strict.Short(r.Events), strict.Short(c.Turn.Deadline))
	}
	if !outlives(r.Outputs, r.Events) {
		fault("retention.outputs", "keep outputs at least a day longer than events (0s = for ever)", "is %s, events are kept %s",
			strict.Short(r.Outputs), strict.Short(r.Events))
	}
	if !outlives(r.Effects, r.Outputs) {
		fault("retention.effects", "keep effects at least a day longer than outputs (0s = for ever)", "is %s, outputs are kept %s",
			strict.Short(r.Effects), strict.Short(r.Outputs))
	}
}

type faulter func(path, fix, format string, args ...any)

func (c *Config) checkListen(fault faulter) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		fault("listen", "write host:port, as in 127.0.0.1:8787", "%q is no address to listen on", c.Listen)
		return
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		fault("tls.cert", "give both tls.cert and tls.key, or neither", "certificate and key belong together")
	}
	if Loopback(host) {
		return
	}
	if c.TLS.Cert == "" && c.TLS.Key == "" {
		fault("listen", "set tls.cert and tls.key, or listen on 127.0.0.1", "%s is open to other hosts and would not be encrypted", c.Listen)
	}
	if c.TokensFile == "" {
		fault("listen", "set tokens_file, or listen on 127.0.0.1", "%s is open to other hosts and would need no token", c.Listen)
	}
}

// Loopback reports whether a host of a listen address is this machine only.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (c *Config) checkNATS(fault faulter) {
	for server := range strings.SplitSeq(c.NATS.URL, ",") {
		if c.NATS.URL == "" {
			break
		}
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			fault("nats.url", "write nats://host:4222, several with commas between them", "is no address of a NATS server")
			break
		}
	}
	if c.NATS.Embedded() && c.NATS.StoreDir == "" {
		fault("nats.store_dir", "name a folder", "is empty")
	}
	if c.NATS.User != "" && c.NATS.PasswordEnv == "" {
		fault("nats.user", "name the variable that holds the password in nats.password_env", "has no password")
	}
	ways := 0
	for _, way := range []string{c.NATS.User, c.NATS.Creds, c.NATS.NKey} {
		if way != "" {
			ways++
		}
	}
	if ways > 1 {
		fault("nats.creds", "keep one of nats.user, nats.creds and nats.nkey", "there are %d ways to log in", ways)
	}
	if t := c.NATS.TLS; (t.Cert == "") != (t.Key == "") {
		fault("nats.tls.cert", "give both nats.tls.cert and nats.tls.key, or neither", "certificate and key belong together")
	}
	checkEnvName("nats.password_env", c.NATS.PasswordEnv, fault)
}

func checkEnvName(path, name string, fault faulter) {
	if name != "" && !envName(name) {
		fault(path, "name the variable, as in OPENAI_API_KEY, not its value", "is not the name of an environment variable")
	}
}

func envName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// check reports what is wrong with a provider as a whole.
func (p *Provider) check(at strict.Value, given func(member string) bool) {
	report := func(member, fix, format string, args ...any) {
		at.At(member).Fault(fix, format, args...)
	}
	if p.API == "" && !given("api") {
		report("api", "write api: one of "+strings.Join(APIs, ", "), "is missing")
	}
	if p.Model == "" && !given("model") {
		report("model", "name the model, as in model: m-small", "is missing")
	}
	checkEnvName("api_key_env", p.APIKeyEnv, report)
	if p.BaseURL != "" {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			report("base_url", "write it as in https://api.openai.com/v1", "is no http or https address without a query")
		} else if u.User != nil {
			report("base_url", "put the password into a variable and name that in api_key_env", "holds a password")
		}
	}
	if p.ConnectTimeout > p.TotalTimeout || p.HeaderTimeout > p.TotalTimeout || p.StallTimeout > p.TotalTimeout {
		report("total_timeout", "make it at least connect_timeout, header_timeout and stall_timeout",
			"is %s, less than a part of it", strict.Short(p.TotalTimeout))
	}
	p.checkPrice(report)
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		value := p.Headers[name]
		if strings.ContainsAny(name, " \t\r\n:") || name == "" || strings.ContainsAny(value, "\r\n") {
			report("headers", "write a header name and a value on one line", "holds %q, which is no header", name)
		}
	}
}

// checkPrice completes a price, or reports that half of it is missing: a cost that leaves
// something out would look like a whole one.
func (p *Provider) checkPrice(report faulter) {
	switch in, out := p.Price.Input.Given, p.Price.Output.Given; {
	case in && !out:
		report("price", "write price: {input: ..., output: ...}", "has an input price and no output price")
	case !in && (out || p.Price.CacheRead.Given):
		report("price", "write price: {input: ..., output: ...}", "has no input price")
	case !p.Price.CacheRead.Given:
		p.Price.CacheRead.Picos = p.Price.Input.Picos
	}
}

// CheckTools reports each tool that could outlast the turn that calls it, or wait for a
// person until the turn's first events are gone: the deadline stands still meanwhile.
func (c *Config) CheckTools(set *tool.Set) error {
	var report strict.Report
	for _, d := range set.All() {
		if d.Timeout >= c.Turn.Deadline {
			report.Add(strict.Fault{File: set.File, Line: d.Line, Field: d.Name + ".timeout",
				Problem: fmt.Sprintf("is %s, but a turn ends after %s", strict.Short(d.Timeout), strict.Short(c.Turn.Deadline)),
				Fix:     "make it shorter, or turn.deadline longer"})
		}
		if longest := c.Turn.Deadline + d.ApprovalTimeout; d.Approval == tool.ApprovalAlways && c.Retention.Events != 0 && c.Retention.Events < longest+retentionGap {
			report.Add(strict.Fault{File: set.File, Line: d.Line, Field: d.Name + ".approval_timeout",
				Problem: fmt.Sprintf("is %s, but events are kept %s only", strict.Short(d.ApprovalTimeout), strict.Short(c.Retention.Events)),
				Fix:     "make it shorter, or retention.events a day longer than it and turn.deadline together"})
		}
	}
	return report.Err()
}

// Key reads the provider's API key from the environment: the variable itself, or the
// file that the variable with _FILE appended names. Empty if the provider has none.
func (p Provider) Key(env func(string) (string, bool)) (string, error) {
	if p.APIKeyEnv == "" {
		return "", nil
	}
	key, err := secret(p.APIKeyEnv, env)
	if err != nil {
		return "", fmt.Errorf("provider %s: api_key_env: %w", p.Name, err)
	}
	return key, nil
}

// Password reads the NATS user's password; see Key.
func (n NATS) Password(env func(string) (string, bool)) (string, error) {
	if n.PasswordEnv == "" {
		return "", nil
	}
	password, err := secret(n.PasswordEnv, env)
	if err != nil {
		return "", fmt.Errorf("nats.password_env: %w", err)
	}
	return password, nil
}

func secret(name string, env func(string) (string, bool)) (string, error) {
	if env == nil {
		env = os.LookupEnv
	}
	if value, ok := env(name); ok && value != "" {
		return value, nil
	}
	if file, ok := env(name + "_FILE"); ok && file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s_FILE: %w", name, err)
		}
		if value := strings.TrimSpace(string(data)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("%s_FILE names an empty file", name)
	}
	return "", fmt.Errorf("the environment variable %s is not set; set it, or %s_FILE to a file that holds the value", name, name)
}
