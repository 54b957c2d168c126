package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
)

// argsBytesMax bounds arguments read from standard input, in bytes.
const argsBytesMax = 16 << 20

// keyQuestion is what `effects key` was asked.
type keyQuestion struct {
	tool, args, file, turn, tenant string
	conversation, opened           string
	ordinal                        int
}

// keyField is one member of the arguments and its part in the key.
type keyField struct {
	Name string `json:"name"`
	// Role is identity, decoration, or absent for a field of the identity that the
	// arguments leave out.
	Role  string          `json:"role"`
	Value json.RawMessage `json:"value,omitempty"`
}

// keyAnswer explains a key.
type keyAnswer struct {
	Tool      string          `json:"tool"`
	Effect    string          `json:"effect"`
	Repeat    string          `json:"repeat"`
	Arguments json.RawMessage `json:"arguments"` // canonical
	Refused   string          `json:"refused,omitempty"`
	Fields    []keyField      `json:"fields"`
	Tenant    string          `json:"tenant"`
	Scope     string          `json:"scope"`
	Identity  json.RawMessage `json:"identity"`
	Ordinal   int             `json:"ordinal"`
	Preimage  string          `json:"preimage,omitempty"`
	Key       string          `json:"key,omitempty"`
}

func newEffectsKeyCommand() *cobra.Command {
	var q keyQuestion
	cmd := &cobra.Command{
		Use: "key --tool TOOL --args JSON|- --turn ID", Short: "Explain the key of a call: what is in it, and what is not",
		Long: "key derives the effect key that a call of a turn gets, from its declaration and its arguments alone, and\n" +
			"shows each part. It asks no server. Without a turn it shows the parts, but no key: a key is a turn's.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := q.answer(cmd)
			if err != nil {
				return err
			}
			if asked(cmd, "json") {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(answer)
			}
			return answer.write(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.tool, "tool", "", "name of the tool")
	f.StringVar(&q.args, "args", "", "arguments as JSON, or - for standard input")
	f.StringVar(&q.file, "tools", "", "declarations (default: tools_file of the configuration)")
	f.StringVar(&q.turn, "turn", "", "turn that the call belongs to")
	f.StringVar(&q.tenant, "tenant", "local", "tenant that the turn belongs to")
	f.StringVar(&q.conversation, "conversation", "", "conversation that the turn belongs to, for tools of that scope")
	f.StringVar(&q.opened, "opened", "", "when the turn was opened, as 2026-01-02T15:04:05Z, for tools with a window (default: now)")
	f.IntVar(&q.ordinal, "ordinal", 0, "which of several equal calls that are meant to repeat, from 0")
	return cmd
}

func (q keyQuestion) answer(cmd *cobra.Command) (keyAnswer, error) {
	var none keyAnswer
	switch {
	case q.tool == "":
		return none, usagef("name a tool: --tool")
	case !cmd.Flags().Changed("args"):
		return none, usagef("give arguments: --args JSON, or --args - for standard input")
	case q.ordinal < 0:
		return none, usagef("--ordinal %d: ordinals start at 0", q.ordinal)
	}
	if err := subjects.CheckID("tenant", q.tenant); err != nil {
		return none, coded{exitUsage, err}
	}
	if q.turn != "" {
		if err := subjects.CheckID("turn", q.turn); err != nil {
			return none, coded{exitUsage, err}
		}
	}
	text := q.args
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), argsBytesMax+1))
		if err != nil {
			return none, fmt.Errorf("read the arguments: %w", err)
		}
		if len(data) > argsBytesMax {
			return none, usagef("the arguments have more than %d bytes", argsBytesMax)
		}
		text = string(data)
	}
	set, err := q.tools(cmd)
	if err != nil {
		return none, err
	}
	d, ok := set.Get(q.tool)
	if !ok {
		return none, usagef("%s declares no tool %q, only %s", set.File, q.tool, strings.Join(set.Names(), ", "))
	}
	scope, err := q.scope(d)
	if err != nil {
		return none, err
	}
	answer, err := explain(d, text, effect.Meaning{Tenant: q.tenant, Scope: scope, Tool: d.Name, Ordinal: q.ordinal})
	if err != nil {
		return none, coded{exitUsage, err}
	}
	return answer, nil
}

// scope is what the key is unique within, as the fold would find it.
func (q keyQuestion) scope(d *tool.Declaration) (string, error) {
	at := time.Now()
	if q.opened != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, q.opened); err != nil {
			return "", usagef("--opened %s: write it as 2026-01-02T15:04:05Z", q.opened)
		}
	}
	if q.conversation != "" {
		if err := subjects.CheckID("conversation", q.conversation); err != nil {
			return "", coded{exitUsage, err}
		}
	}
	return effect.Scope{Kind: d.Scope, Turn: q.turn, Conversation: q.conversation, WindowMS: d.Window.Milliseconds(),
		AtMS: at.UnixMilli()}.String(), nil
}

// tools reads the declarations that the flags name, else those of the configuration.
func (q keyQuestion) tools(cmd *cobra.Command) (*tool.Set, error) {
	file := q.file
	if file == "" {
		g := &globals{}
		if f := cmd.Flag("config"); f != nil {
			g.configFile = f.Value.String()
		}
		if sets, err := cmd.Flags().GetStringArray("set"); err == nil {
			g.set = sets
		}
		cfg, err := g.load(cmd)
		if err != nil {
			return nil, err
		}
		if file = cfg.ToolsFile; file == "" {
			return nil, usagef("the configuration names no tools_file; name one: --tools tools.yaml")
		}
	}
	set, err := tool.Load(file)
	if err != nil {
		return nil, coded{exitUsage, err}
	}
	return set, nil
}

// explain derives a key and keeps every step.
func explain(d *tool.Declaration, args string, m effect.Meaning) (keyAnswer, error) {
	canonical, err := effect.Canonical(args)
	if err != nil {
		return keyAnswer{}, err
	}
	if m.Identity, err = effect.IdentityOf(args, d.Identity); err != nil {
		return keyAnswer{}, err
	}
	a := keyAnswer{Tool: d.Name, Effect: string(d.Effect), Repeat: string(d.Repeat), Arguments: json.RawMessage(canonical),
		Tenant: m.Tenant, Scope: m.Scope, Identity: json.RawMessage(m.Identity), Ordinal: m.Ordinal, Fields: []keyField{}}
	if err := tool.Validate(d, args); err != nil {
		a.Refused = err.Error()
	}
	if m.Scope != "" {
		a.Preimage, a.Key = m.Preimage(), m.Key()
	}
	var all, named map[string]json.RawMessage
	if err := json.Unmarshal([]byte(canonical), &all); err != nil {
		return keyAnswer{}, err
	}
	if err := json.Unmarshal([]byte(m.Identity), &named); err != nil {
		return keyAnswer{}, err
	}
	for name, value := range all {
		f := keyField{Name: name, Role: "decoration", Value: value}
		if _, ok := named[name]; ok {
			f.Role = "identity"
		}
		a.Fields = append(a.Fields, f)
	}
	for _, name := range d.Identity.Fields {
		if _, ok := effect.Lookup(args, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)); !ok && !d.Identity.All {
			a.Fields = append(a.Fields, keyField{Name: name, Role: "absent"})
		}
	}
	slices.SortFunc(a.Fields, func(x, y keyField) int {
		if x.Role != y.Role {
			return strings.Compare(roleOrder(x.Role), roleOrder(y.Role))
		}
		return strings.Compare(x.Name, y.Name)
	})
	return a, nil
}

// roleOrder puts what is in the key first.
func roleOrder(role string) string {
	return map[string]string{"identity": "a", "absent": "b", "decoration": "c"}[role]
}

func (a keyAnswer) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "tool        %s (%s, repeat %s)\narguments   %s\n", a.Tool, a.Effect, a.Repeat, a.Arguments)
	if a.Refused != "" {
		fmt.Fprintf(&b, "refused     %s\n", a.Refused)
	}
	for _, f := range a.Fields {
		value := string(f.Value)
		if f.Role == "absent" {
			value = "in the identity, but not in the arguments"
		}
		fmt.Fprintf(&b, "%-11s %-20s %s\n", f.Role, f.Name, value)
	}
	scope := fmt.Sprintf("%q, the turn", a.Scope)
	switch {
	case a.Scope == "":
		scope = "no turn given"
	case strings.Contains(a.Scope, "/"):
		scope = fmt.Sprintf("%q, shared by turns", a.Scope)
	}
	fmt.Fprintf(&b, "preimage\n  tenant    %q\n  scope     %s\n  tool      %q\n  identity  %s\n  ordinal   %d\n",
		a.Tenant, scope, a.Tool, a.Identity, a.Ordinal)
	if a.Key == "" {
		b.WriteString("key         needs --turn: equal calls of two turns have two keys\n")
	} else {
		fmt.Fprintf(&b, "  as text   %s\nkey         %s\n", a.Preimage, a.Key)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// asked reads a truth flag of the command or of one above it.
func asked(cmd *cobra.Command, name string) bool {
	on, err := cmd.Flags().GetBool(name)
	return err == nil && on
}

func contextWithTimeout(cmd *cobra.Command, d time.Duration) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, d)
}
