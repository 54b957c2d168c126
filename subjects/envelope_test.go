package subjects

import (
	"errors"
	"testing"
)

type sealHead struct {
	V int `json:"v"`
}

func TestSeal(t *testing.T) {
	for _, c := range []struct {
		head, body any
		want       string
	}{
		{sealHead{1}, struct{}{}, `{"v":1}`},
		{sealHead{1}, map[string]int{"b": 2, "a": 1}, `{"v":1,"a":1,"b":2}`},
		{struct{}{}, map[string]string{"a": "<é>&\u2028"}, "{\"a\":\"<é>&\u2028\"}"},
		{struct{}{}, struct{}{}, `{}`},
	} {
		got, err := Seal(c.head, c.body)
		if err != nil || string(got) != c.want {
			t.Errorf("Seal(%v, %v) = %s, %v; want %s", c.head, c.body, got, err, c.want)
		}
	}
	for _, c := range [][2]any{{1, struct{}{}}, {sealHead{1}, "text"}, {sealHead{1}, []int{1}}, {sealHead{1}, nil},
		{func() {}, struct{}{}}, {sealHead{1}, func() {}}, {sealHead{1}, map[string]string{"a": "\xff"}}} {
		if got, err := Seal(c[0], c[1]); err == nil {
			t.Errorf("Seal(%T, %T) gives %s", c[0], c[1], got)
		}
	}
}

func TestOpen(t *testing.T) {
	var h sealHead
	if err := Open([]byte(`{"v":7,"unknown":[1,{"x":null}]}`), &h); err != nil || h.V != 7 {
		t.Errorf("%+v, %v", h, err)
	}
	for _, data := range []string{``, `{`, `[]`, `{"v":1}x`, `{"v":1,"v":1}`, `{"v":"1"}`, "{\"v\":1,\"x\":\"\xff\"}", `{"v":1,"x":"\ud800"}`, `{"V":1,}`} {
		if err := Open([]byte(data), &h); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestIsObject(t *testing.T) {
	for data, want := range map[string]bool{
		`{}`: true, " {\"a\":[1]}\n": true, ``: false, `[]`: false, `"{}"`: false, `{}{}`: false, `{"a":1`: false, `{"a":1,"a":2}`: false, `null`: false,
	} {
		if got := IsObject([]byte(data)); got != want {
			t.Errorf("IsObject(%s) = %v", data, got)
		}
	}
}
