// Package wiretest holds the bytes that a package puts on a log against those that it once
// did.
//
// Invariant: bytes that were recorded are never taken away, since logs keep them.
package wiretest

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "add bytes that testdata/wire.txt does not have yet; it never takes any away")

// Fill gives every member of a body a value other than its zero, so that no member,
// not even one that is added later, is left out of the recorded bytes.
func Fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		Fill(t, v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				Fill(t, v.Field(i), v.Type().Field(i).Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(t, v.Index(0), name)
	case reflect.String:
		v.SetString(strings.ToLower(name) + " é<&>\u2028")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)) + 1<<40)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(len(name)))
	default:
		t.Fatalf("%s has a type that no recorded bytes cover: %s", name, v.Type())
	}
}

// Recorded reads the bytes of testdata/wire.txt. They are what was once on a log:
// every line stays there for ever and must be read as long as there are logs.
func Recorded(t *testing.T) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/wire.txt")
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.Lines(data) {
		out = append(out, bytes.TrimSuffix(line, []byte("\n")))
	}
	return out
}

// Record looks for the bytes among the recorded ones, and adds them if asked to.
func Record(t *testing.T, lines [][]byte, data []byte) {
	t.Helper()
	for _, l := range lines {
		if bytes.Equal(l, data) {
			return
		}
	}
	if !*rewrite {
		t.Errorf("these bytes are new; if an old binary may read them, add them with -rewrite:\n%s", data)
		return
	}
	f, err := os.OpenFile("testdata/wire.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		t.Fatal(err)
	}
}
