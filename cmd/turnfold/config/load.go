package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/executor/tool/strict"
)

// FileDefault is the file that is read if it is there and no other is named.
const FileDefault = "turnfold.yaml"

// nameForm is a provider's or route's name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Origin is where a value came from.
type Origin struct {
	Kind string // default, file, env, flag
	Name string // the file, variable or flag
	Line int    // in the file
}

func (o Origin) String() string {
	switch o.Kind {
	case "file":
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case "env":
		return "env " + o.Name
	case "flag":
		return "flag --" + o.Name
	}
	return "default"
}

// Load reads the configuration. The file at path must exist if it was asked for
// explicitly. env looks up variables (os.LookupEnv); an empty one counts as unset.
// flags holds the values of the flags that were given, by the member's path
// ("listen", "nats.store_dir"). The error is strict.Faults, all at once, unless the
// file cannot be read.
func Load(path string, explicit bool, env func(string) (string, bool), flags map[string]string) (*Config, error) {
	if env == nil {
		env = os.LookupEnv
	}
	l := &loader{c: &Config{Providers: map[string]Provider{}, Routes: map[string][]string{}, origins: map[string]Origin{}},
		env: env, flags: flags, used: map[string]bool{}, folder: filepath.Dir(path)}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		l.c.File = path
	case explicit || !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("configuration: %w", err)
	}
	root, err := strict.Parse(path, data, &l.report)
	if err != nil {
		return nil, err
	}
	l.read(root)
	for name := range flags {
		if !l.used[name] {
			l.report.Add(strict.Fault{File: "--" + name, Problem: "no member has this name", Fix: "name a member of the configuration"})
		}
	}
	l.c.check(&l.report)
	if err := l.report.Err(); err != nil {
		return nil, err
	}
	return l.c, nil
}

// loader reads one configuration.
type loader struct {
	c      *Config
	env    func(string) (string, bool)
	flags  map[string]string
	used   map[string]bool // flags that named a member
	folder string          // of the file
	report strict.Report
}

func (l *loader) read(root strict.Value) {
	settings := l.c.settings()
	inFile := l.walk(root, "", settings, "providers", "routes")
	for _, s := range settings {
		l.apply(s, inFile[s.path])
	}
	l.readProviders(inFile["providers"])
	l.readRoutes(inFile["routes"])
}

// walk reads an object of the file and, in depth, the objects in it; it gives the
// value of each member by its path.
func (l *loader) walk(v strict.Value, prefix string, settings []setting, others ...string) map[string]strict.Value {
	known, nested := slices.Clone(others), map[string]bool{}
	for _, s := range settings {
		rest, ok := strings.CutPrefix(s.path, prefix)
		if !ok {
			continue
		}
		first, _, deep := strings.Cut(rest, ".")
		if !slices.Contains(known, first) {
			known = append(known, first)
		}
		nested[first] = deep
	}
	o, out := v.Object(known...), map[string]strict.Value{}
	for _, key := range known {
		member := o.Get(key)
		if !nested[key] {
			out[prefix+key] = member
			continue
		}
		maps.Copy(out, l.walk(member, prefix+key+".", settings))
	}
	return out
}

// apply gives a setting its value: of the flag, the variable, the file or the default.
func (l *loader) apply(s setting, inFile strict.Value) {
	if _, ok := l.flags[s.path]; ok {
		l.used[s.path] = true
	}
	_ = s.set(s.usual) // also where what follows is wrong, so that one fault brings no second
	l.c.origins[s.path] = Origin{Kind: "default"}
	origin, value, ok := l.override(s)
	switch {
	case ok:
		if err := s.set(value); err != nil {
			where := origin.Name
			if origin.Kind == "flag" {
				where = "--" + where
			}
			l.report.Add(strict.Fault{File: where, Field: s.path, Problem: err.Error()})
		}
		l.c.origins[s.path] = origin
		// The file's value is read all the same, so that a fault in it does not wait for
		// the day on which the variable is gone.
		probe := s
		probe.set = func(string) error { return nil }
		l.fromFile(probe, inFile)
	case inFile.Present():
		l.fromFile(s, inFile)
		l.c.origins[s.path] = Origin{Kind: "file", Name: l.c.File, Line: inFile.Line()}
	case s.file && s.usual != "":
		_ = s.set(resolve(l.folder, s.usual))
	}
}

func (l *loader) fromFile(s setting, v strict.Value) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	if s.whole && v.IsString() {
		v.Fault("write it without quotes", "is the text %q, want a whole number", text)
		return
	}
	if s.text && !v.IsString() {
		if _, err := strict.ParseDuration(s.usual, 0, 1<<62); err == nil {
			v.Fault("", "%s has no unit; write one, as in %ss", text, text)
			return
		}
		_ = v.String() // reports that it is no text
		return
	}
	if s.file {
		text = resolve(l.folder, text)
	}
	if err := s.set(text); err != nil {
		v.Fault("", "%v", err)
	}
}

// wellKnown are the variables of other tools that are honoured too.
var wellKnown = map[string]string{"nats.url": "NATS_URL", "nats.creds": "NATS_CREDS"}

func (l *loader) override(s setting) (Origin, string, bool) {
	if value, ok := l.flags[s.path]; ok {
		return Origin{Kind: "flag", Name: s.path}, value, true
	}
	for _, name := range []string{s.envName(), wellKnown[s.path]} {
		if name == "" {
			continue
		}
		if value, ok := l.env(name); ok && value != "" {
			return Origin{Kind: "env", Name: name}, value, true
		}
	}
	return Origin{}, "", false
}

func (l *loader) readProviders(v strict.Value) {
	for _, m := range v.Members() {
		if !nameForm.MatchString(m.Key) {
			m.Fault("use 1 to 64 of A-Z a-z 0-9 _ -", "%q is not a provider's name", m.Key)
			continue
		}
		l.readProvider(m)
	}
}

func (l *loader) readProvider(m strict.Member) {
	p := Provider{Name: m.Key, Headers: map[string]string{}}
	at := "providers." + m.Key + "."
	settings := p.settings()
	inFile := l.walk(m.Value, at, settings, "headers")
	for _, s := range settings {
		l.apply(s, inFile[s.path])
	}
	for _, h := range inFile[at+"headers"].Members() {
		p.Headers[h.Key] = h.String()
		l.c.origins[at+"headers."+h.Key] = Origin{Kind: "file", Name: l.c.File, Line: h.Line()}
	}
	p.check(m.Value, func(member string) bool { return l.c.origins[at+member].Kind != "default" })
	if p.BaseURL == "" {
		p.BaseURL = baseURLs[p.API]
	}
	l.c.Providers[m.Key] = p
}

func (l *loader) readRoutes(v strict.Value) {
	names := slices.Sorted(maps.Keys(l.c.Providers))
	for _, m := range v.Members() {
		if !nameForm.MatchString(m.Key) {
			m.Fault("use 1 to 64 of A-Z a-z 0-9 _ -", "%q is not a route's name", m.Key)
			continue
		}
		l.c.Routes[m.Key] = []string{} // named, if faulty, so that it is not missing as well
		for _, item := range m.List() {
			name := item.String()
			if _, ok := l.c.Providers[name]; !ok {
				fix := "name a provider: " + strings.Join(names, ", ")
				if len(names) == 0 {
					fix = "declare it under providers"
				}
				if near := strict.Nearest(name, names); near != "" {
					fix = fmt.Sprintf("did you mean %s?", near)
				}
				item.Fault(fix, "no provider is named %q", name)
			}
			l.c.Routes[m.Key] = append(l.c.Routes[m.Key], name)
		}
		if m.IsList() && len(l.c.Routes[m.Key]) == 0 {
			m.Fault("name at least one provider", "is empty")
		}
		l.c.origins["routes."+m.Key] = Origin{Kind: "file", Name: l.c.File, Line: m.Line()}
	}
	if !v.Present() && len(names) == 1 {
		l.c.Routes["default"] = names
		l.c.origins["routes.default"] = Origin{Kind: "default"}
	}
	switch _, ok := l.c.Routes["default"]; {
	case ok:
		l.c.DefaultRoute = "default"
	case len(names) > 0:
		l.report.Add(strict.Fault{File: l.c.File, Field: "routes.default", Problem: "is missing",
			Fix: fmt.Sprintf("name the providers of a turn that asks for no route, as in routes: {default: [%s]}", names[0])})
	}
}
