package strict

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// nodesMax bounds one value's tree, so that aliases of aliases cannot blow it up.
const nodesMax = 50_000

// depthMax bounds how deeply a value nests; an alias may lead into itself.
const depthMax = 100

// budget is what is left of the bounds.
type budget struct{ nodes, depth int }

// JSON gives the value as JSON text: members in the file's order, numbers digit for
// digit where JSON can spell them so. Null members stay, because in a schema they
// mean something. Empty if the value is absent or wrong.
func (v Value) JSON() string {
	if !v.Present() {
		return ""
	}
	before, left := v.report.Len(), budget{nodesMax, depthMax}
	out := v.appendJSON(nil, &left)
	if left.nodes <= 0 {
		v.Fault("write fewer aliases", "has more than %d values, or nests more than %d deep", nodesMax, depthMax)
	}
	if v.report.Len() > before {
		return ""
	}
	return string(out)
}

func (v Value) appendJSON(out []byte, left *budget) []byte {
	if left.nodes--; left.nodes <= 0 {
		return out
	}
	if left.depth == 0 {
		left.nodes = 0
		return out
	}
	left.depth--
	defer func() { left.depth++ }()
	n := v.resolved()
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]int{}
		out = append(out, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			m := Value{n.Content[i+1], v.file, join(v.path, key.Value), v.report}
			switch {
			case key.Kind != yaml.ScalarNode:
				v.Fault("write a name", "has a key that is %s", kindOf(key))
			case key.ShortTag() == "!!merge":
				m.Fault("write the members out", "merge keys are not supported")
			case seen[key.Value] > 0:
				m.Fault("keep one", "is here for the second time; the first is on line %d", seen[key.Value])
			}
			seen[key.Value] = key.Line
			if i > 0 {
				out = append(out, ',')
			}
			out = append(v.quote(out, key.Value), ':')
			out = m.appendJSON(out, left)
		}
		return append(out, '}')
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, c := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			item := Value{c, v.file, fmt.Sprintf("%s[%d]", v.path, i), v.report}
			out = item.appendJSON(out, left)
		}
		return append(out, ']')
	}
	return v.appendScalar(out, n)
}

func (v Value) appendScalar(out []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(out, "null"...)
	case "!!bool":
		return append(out, strings.ToLower(n.Value)...)
	case "!!int", "!!float":
		text, ok := number(n.Value)
		if !ok {
			v.Fault("write a finite decimal number", "JSON has no number %s", n.Value)
		}
		return append(out, text...)
	}
	return v.quote(out, n.Value)
}

func (v Value) quote(out []byte, s string) []byte {
	next, err := jsontext.AppendQuote(out, s)
	if err != nil {
		v.Fault("write UTF-8 text", "is not valid UTF-8")
	}
	return next
}

// number spells a YAML number in JSON. Decimal digits stay as they are.
func number(s string) (string, bool) {
	val := jsontext.Value(s)
	if val.IsValid() && val.Kind() == '0' {
		return s, true
	}
	plain := strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", "")
	if i, ok := new(big.Int).SetString(plain, 0); ok {
		return i.String(), true
	}
	if strings.ContainsAny(plain, "nN") { // .inf, .nan
		return "", false
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil {
		return "", false
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}
