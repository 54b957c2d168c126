package tool

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/subjects/effect"
)

func TestValidate(t *testing.T) {
	const schema = `{"type":"object","required":["order_id"],"additionalProperties":false,"properties":{
		"order_id":{"type":"string","pattern":"^ORD-","minLength":5},"amount":{"type":"integer","maximum":9007199254740992},
		"kind":{"enum":["a",100]},"note":{"type":"string","enum":["secret-word"]},
		"to":{"anyOf":[{"type":"string"},{"type":"null"}]},"lines":{"type":"array","items":{"type":"number","multipleOf":0.01}},
		"self":{"$ref":"#"}}}`
	for _, c := range []struct{ args, want string }{
		{`{"order_id":"ORD-1"}`, ""},
		{`{"order_id":"ORD-1","amount":100.0}`, ""},
		{`{"order_id":"ORD-1","amount":1e2}`, ""},
		{`{"order_id":"ORD-1","amount":9007199254740992}`, ""},
		{`{"order_id":"ORD-1","amount":9007199254740993}`, "/amount must be at most 9007199254740992"},
		{`{"order_id":"ORD-1","amount":1.5}`, "/amount is of type number, want integer"},
		{`{"order_id":"ORD-1","amount":"5"}`, "/amount is of type string, want integer"},
		{`{"order_id":"ORD-1","kind":100.0,"to":null,"lines":[0.01,19.99,1e3]}`, ""},
		{`{"order_id":"ORD-1","lines":[0.001]}`, "/lines/0 must be a multiple of 1/100"},
		{`{"order_id":"ORD-1","to":5}`, "/to fits not exactly one of the allowed forms"},
		{`{"order_id":"x"}`, "/order_id does not match the pattern ^ORD-; /order_id must have at least 5 characters"},
		{`{"order_id":"ORD-1","note":"hunter2"}`, "/note does not fit its schema"},
		{`{"order_id":"ORD-1","amout":1}`, "the arguments has members that the tool does not know: amout"},
		{`{"order_id":"ORD-1","self":{"amount":1}}`, "/self lacks order_id"},
		{``, "the arguments lacks order_id"},
		{" \n", "the arguments lacks order_id"},
		{`{"order_id":"ORD-1","order_id":"ORD-2"}`, "*"},
		{`[1]`, "*"},
		{`{"order_id":"ORD-1"`, "*"},
		{`{"order_id":"ORD-1","amount":1e999999999}`, "*"},
	} {
		err := ValidateArgs(schema, []string{"/note"}, c.args)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.args, err)
			}
			continue
		}
		if !errors.Is(err, effect.ErrInvalidArguments) {
			t.Errorf("%s: %v is not ErrInvalidArguments", c.args, err)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), effect.ErrInvalidArguments.Error()+": "); c.want != "*" && got != c.want {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("shows a redacted value: %v", err)
		}
	}
	if err := Validate(&Declaration{}, `{"any":"thing"}`); err != nil {
		t.Errorf("no parameters: %v", err)
	}
	if err := Validate(&Declaration{}, `nothing`); !errors.Is(err, effect.ErrInvalidArguments) {
		t.Errorf("no parameters, no object: %v", err)
	}
}

func TestCompileOnce(t *testing.T) {
	a, err := compile(`{"type":"object","title":"once"}`)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := compile(`{"type":"object","title":"once"}`); a != b {
		t.Error("compiled again")
	}
}
