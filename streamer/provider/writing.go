package provider

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Writer builds the JSON of a request. Equal requests give equal bytes, and what is
// the provider's or a tool's own text goes through as it is. Zero is ready for use.
type Writer struct{ Out []byte }

// Raw appends JSON text.
func (w *Writer) Raw(parts ...string) {
	for _, s := range parts {
		w.Out = append(w.Out, s...)
	}
}

// Quote appends a string. It never fails: what is no UTF-8 becomes U+FFFD.
func (w *Writer) Quote(s string) { w.Out, _ = jsontext.AppendQuote(w.Out, s) }

// Comma appends a comma between elements: not after what opened the list.
func (w *Writer) Comma() {
	switch w.Out[len(w.Out)-1] {
	case '[', '{', ':':
	default:
		w.Out = append(w.Out, ',')
	}
}

// Arguments appends the argument text of a past call as a value, byte for byte; blank
// text is {}.
func (w *Writer) Arguments(c *Call) error {
	if err := CheckArguments(c.Args); err != nil {
		return fmt.Errorf("call of %q: %w", c.Name, err)
	}
	if strings.Trim(c.Args, " \t\r\n") == "" {
		w.Raw("{}")
		return nil
	}
	w.Raw(c.Args)
	return nil
}

// Schema is a tool's parameters as they go on the wire; empty if it has none.
func (t Tool) Schema() (string, error) {
	schema := strings.TrimSpace(t.Parameters)
	if schema != "" && (schema[0] != '{' || !jsontext.Value(schema).IsValid()) {
		return "", fmt.Errorf("the parameters of tool %q are no JSON object", t.Name)
	}
	return schema, nil
}

// Choice is the tool choice, auto when nothing is said.
func (r Request) Choice() (string, error) {
	switch r.ToolChoice {
	case "":
		return "auto", nil
	case "auto", "none", "required":
		return r.ToolChoice, nil
	}
	return "", fmt.Errorf("unknown tool choice %q", r.ToolChoice)
}

// SystemText lists what the conversation says with the system's voice, for APIs that
// have one place for it.
func (r Request) SystemText() []string {
	var out []string
	if r.System != "" {
		out = append(out, r.System)
	}
	for _, m := range r.Messages {
		if m.Role == "system" && m.Text != "" {
			out = append(out, m.Text)
		}
	}
	return out
}

// versioned is a base address that names the API's version itself.
var versioned = regexp.MustCompile(`/v\d+((alpha|beta)\d*)?/*$`)

// Address joins the base address and a path. The version, if any, comes between them
// unless the base has one: both forms are in the makers' own examples.
func (e Endpoint) Address(version string, path ...string) (*url.URL, error) {
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the base URL is no http or https address") // it may hold a key: not named
	}
	if version != "" && !versioned.MatchString(u.Path) {
		path = append([]string{version}, path...)
	}
	return u.JoinPath(path...), nil
}

// Labels gives each call of a request its id, and each result the id of its call. APIs
// that check them refuse a history in which an id is missing or occurs twice (case 18),
// or has another API's form.
type Labels struct {
	Fits  func(id string) bool // whether the API takes the id; nil takes all
	used  map[string]bool
	reply []label // the calls that the next results answer
}

type label struct {
	was, is string
	done    bool
}

// Reply begins a reply: results belong to its calls from here on.
func (l *Labels) Reply() { l.reply = l.reply[:0] }

// Call keeps the provider's id, or finds another one.
func (l *Labels) Call(id string) string {
	if l.used == nil {
		l.used = map[string]bool{}
	}
	is := id
	for n := 1; is == "" || l.used[is] || l.Fits != nil && !l.Fits(is); n++ {
		is = fmt.Sprintf("call_%d", len(l.used)+n)
	}
	l.used[is] = true
	l.reply = append(l.reply, label{was: id, is: is})
	return is
}

// Result finds the call of the i-th result: the one at its place, or else the first
// unanswered one of that id.
func (l *Labels) Result(i int, id string) string {
	if i < len(l.reply) && l.reply[i].was == id && !l.reply[i].done {
		l.reply[i].done = true
		return l.reply[i].is
	}
	for k := range l.reply {
		if l.reply[k].was == id && !l.reply[k].done {
			l.reply[k].done = true
			return l.reply[k].is
		}
	}
	return id
}
