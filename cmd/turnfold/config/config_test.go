package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/executor/tool/strict"
)

func envOf(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// load writes a file in a fresh working directory and reads it.
func load(t *testing.T, text string, env, flags map[string]string) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile(FileDefault, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(FileDefault, true, envOf(env), flags)
}

const one = "providers: {main: {api: openai-chat, model: m-small}}\n"

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		env, flags map[string]string
		want       string
	}{
		{"unknown key", "listen: 127.0.0.1:1\nprovider: {}\n", nil, nil,
			"turnfold.yaml:2: provider: unknown key; did you mean providers?"},
		{"unknown nested key", "nats:\n  urll: x\nretry: {backoff: {bse: 1s}}\n", nil, nil,
			"turnfold.yaml:2: nats.urll: unknown key; did you mean url?\n" +
				"turnfold.yaml:3: retry.backoff.bse: unknown key; did you mean base?"},
		{"unknown key without a neighbour", "log:\n  colour: on\n", nil, nil,
			"turnfold.yaml:2: log.colour: unknown key; known are level, format"},
		{"repeated key", "partitions: 1\npartitions: 2\n", nil, nil,
			"turnfold.yaml:2: partitions: is here for the second time; the first is on line 1; keep one"},
		{"no unit", "turn:\n  deadline: 600\n", nil, nil,
			"turnfold.yaml:2: turn.deadline: 600 has no unit; write one, as in 600s"},
		{"no duration", "turn: {deadline: soon}\n", nil, nil,
			`turnfold.yaml:1: turn.deadline: "soon" is not a duration; write a number and a unit, as in 500ms, 10s or 5m`},
		{"range", "partitions: 257\nlease: {ttl: 1ms}\n", nil, nil,
			"turnfold.yaml:1: partitions: \"257\" is no whole number from 1 to 256; write one\n" +
				"turnfold.yaml:2: lease.ttl: 1ms is out of range; write a duration from 1s to 5m"},
		{"retention", "retention: {events: 1h, outputs: 2h, effects: 2h}\n", nil, nil,
			"turnfold.yaml:1: retention.events: is 1h; a turn may take 10m; keep events at least a day longer than turn.deadline\n" +
				"turnfold.yaml:1: retention.outputs: is 2h, events are kept 1h; keep outputs at least a day longer than events (0s = for ever)\n" +
				"turnfold.yaml:1: retention.effects: is 2h, outputs are kept 2h; keep effects at least a day longer than outputs (0s = for ever)"},
		{"types", "listen: 8787\npartitions: \"4\"\nnats: []\nproviders: main\n", nil, nil,
			"turnfold.yaml:1: listen: is the number 8787, want text; write it in quotes: \"8787\"\n" +
				"turnfold.yaml:2: partitions: is the text \"4\", want a whole number; write it without quotes\n" +
				"turnfold.yaml:3: nats: is a list, want an object; write name: value members\n" +
				"turnfold.yaml:4: providers: is the text \"main\", want an object; write name: value members"},
		{"word", "retry: {after_text: salvge}\nlog: {level: loud}\n", nil, nil,
			"turnfold.yaml:1: retry.after_text: \"salvge\" is not known; did you mean salvage? known are reset, salvage\n" +
				"turnfold.yaml:2: log.level: \"loud\" is not known; write one of debug, info, warn, error"},
		{"provider", "providers:\n  main:\n    api: openai\n    base_url: ftp://x\n    api_key_env: sk-123\n    stall_timeout: 1h\n", nil, nil,
			"turnfold.yaml:3: providers.main.api: \"openai\" is not known; write one of openai-chat, openai-responses, anthropic-messages, gemini\n" +
				"turnfold.yaml:3: providers.main.model: is missing; name the model, as in model: m-small\n" +
				"turnfold.yaml:3: providers.main.api_key_env: is not the name of an environment variable; name the variable, as in OPENAI_API_KEY, not its value\n" +
				"turnfold.yaml:3: providers.main.base_url: is no http or https address without a query; write it as in https://api.openai.com/v1\n" +
				"turnfold.yaml:3: providers.main.total_timeout: is 10m, less than a part of it; make it at least connect_timeout, header_timeout and stall_timeout"},
		{"route", one + "routes: {default: [mian], fast: [], x: main}\n", nil, nil,
			"turnfold.yaml:2: routes.default[0]: no provider is named \"mian\"; did you mean main?\n" +
				"turnfold.yaml:2: routes.fast: is empty; name at least one provider\n" +
				"turnfold.yaml:2: routes.x: is the text \"main\", want a list; write a list, as in [a, b]"},
		{"no default route", one + "routes: {fast: [main]}\n", nil, nil,
			"turnfold.yaml: routes.default: is missing; name the providers of a turn that asks for no route, as in routes: {default: [main]}"},
		{"open without guard", "listen: 0.0.0.0:8787\n", nil, nil,
			"turnfold.yaml:1: listen: 0.0.0.0:8787 is open to other hosts and would not be encrypted; set tls.cert and tls.key, or listen on 127.0.0.1\n" +
				"turnfold.yaml:1: listen: 0.0.0.0:8787 is open to other hosts and would need no token; set tokens_file, or listen on 127.0.0.1"},
		{"replicas", "replicas: 3\n", nil, nil,
			"turnfold.yaml:1: replicas: the embedded server keeps one copy, not 3; write replicas: 1, or give nats.url of a cluster"},
		{"even replicas", "replicas: 2\nnats: {url: \"nats://x:4222\"}\n", nil, nil,
			"turnfold.yaml:1: replicas: is 2; an even number of copies survives no more losses; write 1, 3 or 5"},
		{"half a certificate", "tls: {cert: a.pem}\n", nil, nil,
			"turnfold.yaml:1: tls.cert: certificate and key belong together; give both tls.cert and tls.key, or neither"},
		{"nats", "nats: {url: localhost, user: u}\n", nil, nil,
			"turnfold.yaml:1: nats.url: is no address of a NATS server; write nats://host:4222, several with commas between them\n" +
				"turnfold.yaml:1: nats.user: has no password; name the variable that holds the password in nats.password_env"},
		{"environment and flag", "", map[string]string{"TURNFOLD_PARTITIONS": "many"}, map[string]string{"listen": "here", "lisen": "x"},
			"--lisen: no member has this name; name a member of the configuration\n" +
				"--listen: listen: \"here\" is no address to listen on; write host:port, as in 127.0.0.1:8787\n" +
				"TURNFOLD_PARTITIONS: partitions: \"many\" is no whole number from 1 to 256; write one"},
		{"syntax", "listen: [\npartitions: 4\n", nil, nil, "turnfold.yaml:3: not YAML: "},
		{"two documents", "partitions: 4\n---\npartitions: 5\n", nil, nil,
			"turnfold.yaml: has several documents; keep one and remove the --- lines"},
		{"merge", "nats: {<<: {url: x}}\n", nil, nil,
			"turnfold.yaml:1: nats.<<: merge keys are not supported; write the members out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.text, c.env, c.flags)
			if err == nil {
				t.Fatalf("no fault in %q", c.text)
			}
			got := err.Error()
			if c.name == "syntax" {
				got = got[:min(len(got), len(c.want))]
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			var faults strict.Faults
			if !errors.As(err, &faults) {
				t.Errorf("%T is not strict.Faults", err)
			}
		})
	}
}

func TestDefaultsWithoutFile(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load(FileDefault, false, envOf(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.File != "" || c.Listen != "127.0.0.1:8787" || !c.NATS.Embedded() || c.Partitions != 4 || c.Turn.Deadline != 10*time.Minute ||
		c.Limits.BodyBytes != 4<<20 || c.DefaultRoute != "" || c.Alive != 5*time.Second || c.NATS.StoreDir != "turnfold-data" {
		t.Errorf("defaults: %+v", c)
	}
	if _, err := Load("other.yaml", true, envOf(nil), nil); err == nil || !strings.Contains(err.Error(), "other.yaml") {
		t.Errorf("a named file that is not there: %v", err)
	}
}

func TestPrecedence(t *testing.T) {
	file := one + "listen: 127.0.0.1:1\nnats: {url: \"nats://file:1\"}\nturn: {calls: 7}\ntools_file: t/tools.yaml\n"
	env := map[string]string{"TURNFOLD_LISTEN": "127.0.0.1:2", "NATS_URL": "nats://env:1", "TURNFOLD_TURN_CALLS": "",
		"TURNFOLD_PROVIDERS_MAIN_MODEL": "m-env"}
	c, err := load(t, file, env, map[string]string{"listen": "127.0.0.1:3", "tls.cert": "c", "tls.key": "k"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"listen": "flag --listen", "nats.url": "env NATS_URL", "turn.calls": "turnfold.yaml:4", "partitions": "default",
		"providers.main.model": "env TURNFOLD_PROVIDERS_MAIN_MODEL", "providers.main.api": "turnfold.yaml:1"} {
		if got := c.Origin(path).String(); got != want {
			t.Errorf("%s is of %s, want %s", path, got, want)
		}
	}
	if c.Listen != "127.0.0.1:3" || c.NATS.URL != "nats://env:1" || c.Turn.Calls != 7 || c.Providers["main"].Model != "m-env" {
		t.Errorf("values: %+v", c)
	}
	if c.DefaultRoute != "default" || len(c.Routes["default"]) != 1 {
		t.Errorf("one provider and no routes: %v", c.Routes)
	}
	env["TURNFOLD_NATS_URL"] = "nats://own:1"
	if c, err = load(t, file, env, nil); err != nil || c.NATS.URL != "nats://own:1" {
		t.Errorf("TURNFOLD_NATS_URL before NATS_URL: %v %v", c, err)
	}
}

func TestPathsStartAtTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(file, []byte("tools_file: tools.yaml\nnats: {store_dir: /abs}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, true, envOf(map[string]string{"TURNFOLD_TOKENS_FILE": "tokens"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.ToolsFile != filepath.Join(dir, "tools.yaml") || c.NATS.StoreDir != "/abs" || c.TokensFile != "tokens" {
		t.Errorf("paths: %q %q %q", c.ToolsFile, c.NATS.StoreDir, c.TokensFile)
	}
}

// blackbox is the form in which the acceptance harness writes a configuration.
const blackbox = `{
  "listen": "127.0.0.1:41234",
  "nats": {"url": "", "store_dir": "./store"},
  "partitions": 4,
  "replicas": 1,
  "providers": {
    "main": {"api": "openai-chat", "base_url": "http://127.0.0.1:5/v1", "api_key_env": "BLACKBOX_API_KEY", "model": "m-small", "stall_timeout": "20s",
      "headers": {"X-Team": "s3cret \ud83d\ude00"}},
    "big": {"api": "gemini", "base_url": null, "model": "m-big", "max_output_tokens": 9000}
  },
  "routes": {"default": ["main", "big"]},
  "turn": {"deadline": "10m", "calls": 64},
  "tools_file": "tools.yaml",
  "retry": {"attempts_per_step": 3, "attempts_per_turn": 8, "backoff": {"base": "50ms", "max": "400ms"}}
}
`

func TestPrintCanBeReadAgain(t *testing.T) {
	c, err := load(t, blackbox, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Providers["big"]; p.BaseURL != baseURLs["gemini"] || p.MaxOutputTokens != 9000 {
		t.Errorf("provider big: %+v", p)
	}
	if c.Providers["main"].Headers["X-Team"] != "s3cret \U0001F600" {
		t.Errorf("headers: %q", c.Providers["main"].Headers)
	}
	var printed bytes.Buffer
	if err := c.Print(&printed); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(printed.String(), "s3cret") {
		t.Error("a header's value is printed")
	}
	for _, want := range []string{"listen: \"127.0.0.1:41234\" # turnfold.yaml:2\n", "    stall_timeout: \"20s\" # turnfold.yaml:7\n",
		"    base: \"50ms\" # turnfold.yaml:14\n", "partitions: 4 # turnfold.yaml:4\n", "  default: [\"main\", \"big\"] # turnfold.yaml:11\n"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("lacks %q:\n%s", want, printed.String())
		}
	}
	first, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{printed.String(), string(first)} {
		again, err := load(t, text, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		second, err := again.JSON()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%v; got\n%s\nwant\n%s", err, second, first)
		}
	}
}

func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Provider{Name: "main", APIKeyEnv: "K"}
	if key, err := p.Key(envOf(map[string]string{"K": "v"})); key != "v" || err != nil {
		t.Errorf("%q %v", key, err)
	}
	if key, err := p.Key(envOf(map[string]string{"K_FILE": file})); key != "from-file" || err != nil {
		t.Errorf("%q %v", key, err)
	}
	if _, err := p.Key(envOf(nil)); err == nil || !strings.Contains(err.Error(), "provider main: api_key_env: the environment variable K is not set") {
		t.Errorf("%v", err)
	}
	if key, err := (Provider{}).Key(envOf(nil)); key != "" || err != nil {
		t.Errorf("no key wanted: %q %v", key, err)
	}
	if _, err := (NATS{PasswordEnv: "P"}).Password(envOf(nil)); err == nil {
		t.Error("no password, no error")
	}
	c, err := load(t, "nats: {url: \"nats://u:pass1@a:1,nats://b:2\"}\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil || strings.Contains(out.String(), "pass1") || !strings.Contains(out.String(), "nats://hidden@a:1,nats://b:2") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestCheckTools(t *testing.T) {
	set, err := tool.Parse("tools.yaml", []byte("tools:\n- {name: slow, effect: read, timeout: 10m, run: {command: {argv: [x]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "turn: {deadline: 5m}\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "tools.yaml:2: slow.timeout: is 10m, but a turn ends after 5m; make it shorter, or turn.deadline longer"
	if err := c.CheckTools(set); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	set, err = tool.Parse("tools.yaml", []byte("tools:\n- {name: pay, effect: once, approval: always, approval_timeout: 72h, timeout: 1s, run: {command: {argv: [x]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for kept, want := range map[string]string{"97h": "", "0s": "",
		"96h": "tools.yaml:2: pay.approval_timeout: is 72h, but events are kept 96h only; make it shorter, or retention.events a day longer than it and turn.deadline together"} {
		c, err := load(t, "turn: {deadline: 5m}\nretention: {events: "+kept+"}\n", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckTools(set); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("events kept %s: got %v", kept, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{"4MiB": 4 << 20, "64KiB": 64 << 10, "2048": 2048, "5 MB": 5e6} {
		c, err := load(t, "limits: {body_bytes: "+text+"}\n", nil, nil)
		if err != nil || c.Limits.BodyBytes != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := load(t, "limits: {body_bytes: 1GiB}\n", nil, nil); err == nil {
		t.Error("1GiB is taken")
	}
}
