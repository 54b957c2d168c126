package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/subjects/effect"
)

// listPagesMax bounds the pages of a server's list of tools.
const listPagesMax = 100

// offered is a tool as a server lists it. What it hints at is not trusted.
type offered struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"inputSchema"`
	Hints       struct {
		ReadOnly    *bool `json:"readOnlyHint"`
		Idempotent  *bool `json:"idempotentHint"`
		Destructive *bool `json:"destructiveHint"`
	} `json:"annotations"`
}

// ProposeMCP asks an MCP server for its tools and writes declarations of them that Load
// refuses until a person has confirmed each one.
func ProposeMCP(ctx context.Context, server *MCPServer, cfg RunnerConfig) (string, error) {
	if cfg.Env == nil {
		cfg.Env = os.LookupEnv
	}
	l, err := (&links{}).join(server, cfg)
	if err != nil {
		return "", err
	}
	l.unlearned = true
	defer l.leave()
	s, err := l.session(ctx)
	if err != nil {
		return "", err
	}
	tools, err := s.list(ctx)
	if err != nil {
		return "", fmt.Errorf("list the tools: %w", err)
	}
	return proposal(server, tools), nil
}

// list reads the server's tools with their schemas as they came.
func (s *session) list(ctx context.Context) ([]offered, error) {
	var out []offered
	params := &mcp.ListToolsParams{}
	for range listPagesMax {
		f := &flight{}
		_, err := s.client.ListTools(context.WithValue(ctx, flightKey{}, f), params)
		_, answer := f.known()
		s.wire.forget(f)
		if answer.raw == nil {
			if err == nil {
				err = errors.New("the answer cannot be read")
			}
			return nil, err
		}
		var page struct {
			Tools []offered `json:"tools"`
			Next  string    `json:"nextCursor"`
		}
		if err := json.Unmarshal(answer.raw, &page, jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, fmt.Errorf("the answer is no list of tools: %w", err)
		}
		out = append(out, page.Tools...)
		if page.Next == "" {
			return out, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.Next}
	}
	return nil, fmt.Errorf("more than %d pages", listPagesMax)
}

const proposalHead = `# Proposed from what an MCP server says of itself, which nobody vouches for.
# Read what each tool does, then set its effect and identity, and delete "proposed".
# Until then turnfold refuses this file.
`

func proposal(server *MCPServer, tools []offered) string {
	var b strings.Builder
	b.WriteString(proposalHead + "mcp_servers:\n  " + server.Name + ":\n")
	if server.URL != "" {
		fmt.Fprintf(&b, "    url: %s\n", scalar(server.URL))
		writeMap(&b, "headers_env", server.HeadersEnv)
	} else {
		fmt.Fprintf(&b, "    command: [%s]\n", scalars(server.Argv))
		if server.Dir != "" {
			fmt.Fprintf(&b, "    dir: %s\n", scalar(server.Dir))
		}
		if len(server.PassEnv) > 0 {
			fmt.Fprintf(&b, "    pass_env: [%s]\n", scalars(server.PassEnv))
		}
	}
	if len(tools) == 0 {
		b.WriteString("tools: []\n")
		return b.String()
	}
	b.WriteString("tools:\n")
	taken := map[string]bool{}
	for _, t := range tools {
		t.write(&b, server.Name, freeName(t.Name, taken))
	}
	return b.String()
}

func (t offered) write(b *strings.Builder, server, name string) {
	d := &Declaration{Name: name}
	if t.Schema.Kind() == '{' && t.Schema.IsValid() {
		d.Parameters = string(t.Schema)
	}
	fmt.Fprintf(b, "  - name: %s\n    proposed: true # confirm effect and identity, then delete this line\n", name)
	if t.Description != "" {
		fmt.Fprintf(b, "    description: %s\n", scalar(t.Description))
	}
	if d.Parameters != "" {
		schema := t.Schema.Clone()
		if err := schema.Indent(jsontext.WithIndentPrefix("      "), jsontext.WithIndent("  "), jsontext.EscapeForJS(true)); err != nil {
			schema = t.Schema
		}
		fmt.Fprintf(b, "    parameters:\n      %s\n", schema)
	}
	class, why := t.class()
	fmt.Fprintf(b, "    # The server hints: readOnlyHint %s, idempotentHint %s, destructiveHint %s.\n    effect: %s # %s\n",
		hint(t.Hints.ReadOnly, "false"), hint(t.Hints.Idempotent, "false"), hint(t.Hints.Destructive, "true"), class, why)
	t.writeIdentity(b, d, class)
	fmt.Fprintf(b, "    run: {mcp: {server: %s, tool: %s}}\n", server, scalar(t.Name))
}

// class proposes an effect. A hint moves it to the safer side only: what is not said to
// repeat safely gets one try.
func (t offered) class() (effect.Class, string) {
	yes := func(p *bool) bool { return p != nil && *p }
	switch {
	case yes(t.Hints.ReadOnly):
		return effect.Read, "if it really changes nothing: it runs for every call and is repeated freely"
	case yes(t.Hints.Idempotent):
		return effect.Keyed, "if a repeat really adds nothing: it is sent again after an unknown outcome"
	}
	return effect.Once, "one try; keyed if the server collapses calls with one key"
}

func (t offered) writeIdentity(b *strings.Builder, d *Declaration, class effect.Class) {
	s := shapeOf(d)
	if class == effect.Read || len(s.names) == 0 {
		return
	}
	var named, rest []string
	for _, field := range s.names {
		if s.required[field] {
			named = append(named, field)
		} else {
			rest = append(rest, field)
		}
	}
	if len(named) == 0 || class == effect.Keyed {
		// What is idempotent is so for equal arguments, all of them.
		b.WriteString("    identity: \"*\" # every argument; or list those that say which effect is meant\n")
		return
	}
	fmt.Fprintf(b, "    identity: [%s] # the required ones: keep those that say which effect is meant, drop those that describe it\n", scalars(named))
	if len(rest) > 0 {
		fmt.Fprintf(b, "    # Taken for decoration: %s.\n", scalars(rest))
	}
}

func hint(p *bool, fallback string) string {
	if p == nil {
		return "not given (" + fallback + ")"
	}
	return fmt.Sprint(*p)
}

// freeName makes a name that model APIs accept of any other, and no two alike.
func freeName(name string, taken map[string]bool) string {
	out := strings.Map(func(r rune) rune {
		if r < 0x80 && nameForm.MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	if out == "" {
		out = "tool"
	}
	out = out[:min(len(out), 60)]
	for base, n := out, 2; taken[out]; n++ {
		out = fmt.Sprintf("%s_%d", base, n)
	}
	taken[out] = true
	return out
}

// scalar writes text so that YAML reads the same text, on one line.
func scalar(text string) string {
	quoted, err := json.Marshal(strings.ToValidUTF8(text, "\uFFFD"), jsontext.EscapeForJS(true))
	if err != nil {
		panic(err) // a valid string
	}
	var b strings.Builder
	for _, r := range string(quoted) {
		if r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r) // YAML takes these only escaped
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func scalars(list []string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = scalar(text)
	}
	return strings.Join(out, ", ")
}

func writeMap(b *strings.Builder, name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	var parts []string
	for k, v := range m {
		parts = append(parts, scalar(k)+": "+scalar(v))
	}
	slices.Sort(parts)
	fmt.Fprintf(b, "    %s: {%s}\n", name, strings.Join(parts, ", "))
}
