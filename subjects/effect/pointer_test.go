package effect

import "testing"

func TestLookup(t *testing.T) {
	const text = ` { "a" : [ 1.50 , {"b/c": "x\u0041"} ], "~": null, "":"e", "n":{} } `
	for _, c := range []struct {
		pointer, want string
		ok            bool
	}{
		{"/a", `[ 1.50 , {"b/c": "x\u0041"} ]`, true},
		{"/a/0", `1.50`, true},
		{"/a/1/b~1c", `"x\u0041"`, true},
		{"/~0", `null`, true},
		{"/", `"e"`, true},
		{"/n", `{}`, true},
		{"", text[1 : len(text)-1], true},
		{"/a/2", "", false},
		{"/a/-", "", false},
		{"/a/00", "", false},
		{"/a/+1", "", false},
		{"/a/x", "", false},
		{"/n/x", "", false},
		{"/a/0/x", "", false},
		{"/zz", "", false},
		{"a", "", false},
		{"/~2", "", false},
	} {
		if got, ok := Lookup(text, c.pointer); got != c.want || ok != c.ok {
			t.Errorf("Lookup(%q) = %q, %v; want %q, %v", c.pointer, got, ok, c.want, c.ok)
		}
	}
	for _, bad := range []string{"", " ", `{"a":1,"a":2}`, `{"a":1} x`, `{"a":1`} {
		if raw, ok := Lookup(bad, "/a"); ok {
			t.Errorf("Lookup in %q found %q", bad, raw)
		}
	}
}

func TestEmptyRows(t *testing.T) {
	for _, c := range []struct {
		result, rows string
		want         bool
	}{
		{`[]`, "", true}, {` [ ] `, "", true}, {`{}`, "", true}, {"{\n}", "", true}, {`null`, "", true}, {`""`, "", true},
		{"", "", true}, {" \n", "/orders", true},
		{`[0]`, "", false}, {`[[]]`, "", false}, {`{"a":1}`, "", false}, {`0`, "", false}, {`false`, "", false}, {`" "`, "", false},
		{`nothing found`, "", false}, {`[] []`, "", false},
		{`{"orders":[ ],"total":0}`, "/orders", true},
		{`{"orders":{"rows":null}}`, "/orders/rows", true},
		{`{"orders":[1]}`, "/orders", false},
		{`{"total":0}`, "/orders", false},
		{`{}`, "/orders", false},
		{`{"orders":[]}`, "orders", false},
	} {
		if got := EmptyRows(c.result, c.rows); got != c.want {
			t.Errorf("EmptyRows(%q, %q) = %v", c.result, c.rows, got)
		}
	}
}

func TestRedact(t *testing.T) {
	const args = ` {"note" : "se\u0063ret", "o":1.50, "items":[{"note":"x"},{"note":[1]}] } `
	for _, c := range []struct {
		name, args string
		pointers   []string
		want       string
	}{
		{"none", args, nil, args},
		{"one", args, []string{"/note"}, ` {"note" : "[redacted]", "o":1.50, "items":[{"note":"x"},{"note":[1]}] } `},
		{"several, any order", args, []string{"/items/1/note", "/note"}, ` {"note" : "[redacted]", "o":1.50, "items":[{"note":"x"},{"note":"[redacted]"}] } `},
		{"nested and twice", args, []string{"/items/0", "/items", "/items"}, ` {"note" : "se\u0063ret", "o":1.50, "items":"[redacted]" } `},
		{"absent", args, []string{"/zz", "/o/x"}, args},
		{"escaped name", `{"n\u006fte":1}`, []string{"/note"}, `{"n\u006fte":"[redacted]"}`},
		{"name in NFD", "{\"e\u0301\":1}", []string{"/é"}, "{\"e\u0301\":\"[redacted]\"}"},
		{"blank", " ", []string{"/note"}, " "},
		{"not JSON", `{"note":"secret`, []string{"/zz"}, Redacted},
		{"repeated", `{"note":1,"note":2}`, []string{"/note"}, Redacted},
		{"malformed pointer", args, []string{"note"}, Redacted},
		{"whole", args, []string{""}, Redacted},
	} {
		if got := Redact(c.args, c.pointers); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
