package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// fileBytesMax bounds a file, in bytes. Nothing that a person writes comes near it.
const fileBytesMax = 4 << 20

// Parse reads a file's single document. Faults of syntax are its error; those of
// content are added to the report as the members are read. An empty file is an
// absent value.
func Parse(name string, data []byte, report *Report) (Value, error) {
	if len(data) > fileBytesMax {
		return Value{}, Faults{{File: name, Problem: fmt.Sprintf("has %d bytes; at most %d are read", len(data), fileBytesMax)}}
	}
	root := Value{file: name, report: report}
	// JSON has a parser of its own: the YAML one refuses \ud83d\ude00, as JSON spells
	// letters outside the basic plane.
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if node, err := parseJSON(data); err == nil {
			root.node = node
			return root, nil
		}
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		if blank(data) {
			return root, nil
		}
		return Value{}, syntaxFault(name, err)
	}
	if len(doc.Content) > 0 {
		root.node = doc.Content[0]
	}
	return root, nil
}

// blank: comments and white space only.
func blank(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != "---" {
			return false
		}
	}
	return true
}

func syntaxFault(name string, err error) error {
	fault := Fault{File: name, Problem: err.Error(), Fix: "mend the YAML syntax"}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		fault.Problem, fault.Line = one.Message, one.Mark.Line
	}
	fault.Problem = "not YAML: " + strings.TrimPrefix(fault.Problem, "yaml: ")
	if strings.Contains(fault.Problem, "found multiple") {
		fault.Problem, fault.Fix = "has several documents", "keep one and remove the --- lines"
	}
	return Faults{fault}
}

// parseJSON makes YAML nodes of JSON text. Repeated members are kept; whoever reads
// the object reports them with their lines.
func parseJSON(data []byte) (*yaml.Node, error) {
	p := &jsonParser{data: data, line: 1,
		dec: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))}
	node, err := p.value()
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("text after the document: %w", err)
	}
	return node, nil
}

type jsonParser struct {
	data []byte
	dec  *jsontext.Decoder
	at   int // offset up to which lines are counted
	line int
}

func (p *jsonParser) value() (*yaml.Node, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	kind := tok.Kind()
	text := tok.String()
	end := int(p.dec.InputOffset())
	p.line += bytes.Count(p.data[p.at:end], []byte("\n")) // a token holds no line break itself
	p.at = end
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line, Value: text}
	switch kind {
	case 'n':
		node.Tag = "!!null"
	case 't', 'f':
		node.Tag = "!!bool"
	case '"':
		node.Tag = "!!str"
	case '0':
		node.Tag = "!!int"
		if strings.ContainsAny(text, ".eE") {
			node.Tag = "!!float"
		}
	case '{':
		node.Kind, node.Tag, node.Value = yaml.MappingNode, "!!map", ""
		return node, p.items(node, '}')
	case '[':
		node.Kind, node.Tag, node.Value = yaml.SequenceNode, "!!seq", ""
		return node, p.items(node, ']')
	}
	return node, nil
}

func (p *jsonParser) items(node *yaml.Node, end jsontext.Kind) error {
	for p.dec.PeekKind() != end {
		item, err := p.value()
		if err != nil {
			return err
		}
		node.Content = append(node.Content, item)
	}
	_, err := p.dec.ReadToken()
	return err
}
