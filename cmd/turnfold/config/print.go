package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// hidden stands for a value that is never shown.
const hidden = "(hidden)"

// line is one member of the printed configuration.
type line struct {
	path   []string
	value  string // as JSON, which is YAML too
	origin Origin
}

// Origin tells where the value at a path came from, such as "nats.url" or
// "providers.main.model".
func (c *Config) Origin(path string) Origin { return c.origins[path] }

// Print writes the configuration in force as YAML, each value with its origin. What
// it writes can be read again, except for hidden values.
func (c *Config) Print(w io.Writer) error {
	var out bytes.Buffer
	var open []string
	for _, l := range c.lines() {
		last := len(l.path) - 1
		same := 0
		for same < min(last, len(open)) && open[same] == l.path[same] {
			same++
		}
		for depth := same; depth < last; depth++ {
			fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), yamlKey(l.path[depth]))
		}
		open = l.path[:last]
		fmt.Fprintf(&out, "%s%s: %s # %s\n", strings.Repeat("  ", last), yamlKey(l.path[last]), l.value, l.origin)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// yamlKey quotes a key that YAML could take for something else.
func yamlKey(s string) string {
	for _, r := range s {
		if r != '_' && r != '-' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return quote(s)
		}
	}
	return s
}

// JSON gives the configuration in force as one JSON object, in the order of Print.
func (c *Config) JSON() ([]byte, error) {
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, jsontext.Multiline(true), jsontext.WithIndent("  "))
	var err error
	put := func(t jsontext.Token) {
		if err == nil {
			err = enc.WriteToken(t)
		}
	}
	var open []string
	put(jsontext.BeginObject)
	for _, l := range c.lines() {
		last := len(l.path) - 1
		same := 0
		for same < min(last, len(open)) && open[same] == l.path[same] {
			same++
		}
		for range len(open) - same {
			put(jsontext.EndObject)
		}
		for depth := same; depth < last; depth++ {
			put(jsontext.String(l.path[depth]))
			put(jsontext.BeginObject)
		}
		open = l.path[:last]
		put(jsontext.String(l.path[last]))
		if err == nil {
			err = enc.WriteValue(jsontext.Value(l.value))
		}
	}
	for range open {
		put(jsontext.EndObject)
	}
	put(jsontext.EndObject)
	return out.Bytes(), err
}

// lines lists all members in the order of the documentation: providers and routes
// stand where people write them, before retry.
func (c *Config) lines() []line {
	var out []line
	for _, s := range c.settings() {
		if s.path == "streams.manage" {
			out = append(out, c.namedLines()...)
		}
		value := s.get()
		if s.path == "nats.url" {
			value = withoutPasswords(value)
		}
		out = append(out, line{strings.Split(s.path, "."), c.spell(s, value), c.origins[s.path]})
	}
	return out
}

func (c *Config) namedLines() []line {
	var out []line
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		for _, s := range p.settings() {
			member := strings.TrimPrefix(s.path, "providers."+name+".")
			out = append(out, line{append([]string{"providers", name}, strings.Split(member, ".")...), c.spell(s, s.get()), c.origins[s.path]})
		}
		for _, h := range slices.Sorted(maps.Keys(p.Headers)) {
			out = append(out, line{[]string{"providers", name, "headers", h}, quote(hidden),
				c.origins["providers."+name+".headers."+h]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Routes)) {
		list := make([]string, len(c.Routes[name]))
		for i, entry := range c.Routes[name] {
			list[i] = quote(entry)
		}
		out = append(out, line{[]string{"routes", name}, "[" + strings.Join(list, ", ") + "]", c.origins["routes."+name]})
	}
	return out
}

// spell writes a value as JSON.
func (c *Config) spell(s setting, value string) string {
	if _, err := strconv.Atoi(value); (err == nil || value == "true" || value == "false") && !s.text {
		return value
	}
	return quote(value)
}

func quote(s string) string {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return strconv.QuoteToASCII(s) // not UTF-8: from the environment
	}
	return string(out)
}

// withoutPasswords hides passwords and tokens in a list of addresses.
func withoutPasswords(list string) string {
	servers := strings.Split(list, ",")
	for i, server := range servers {
		u, err := url.Parse(strings.TrimSpace(server))
		if err == nil && u.User != nil {
			u.User = url.User("hidden")
			servers[i] = u.String()
		}
	}
	return strings.Join(servers, ",")
}
