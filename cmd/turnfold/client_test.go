package main

import (
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/render"
)

// A connection that is cut amid an item loses that item only: it comes again.
func TestCutLine(t *testing.T) {
	whole := `{"type":"text_delta","id":"1.0","turn":"t","step":1,"attempt":1,"text":"a"}` + "\n"
	for n := range len(whole) {
		var seen int
		ended, err := lines(strings.NewReader(whole+whole[:n]), func(render.Item) error { seen++; return nil })
		if err != nil || ended || seen != 1 {
			t.Fatalf("cut after %d bytes: %d items, ended %v, %v", n, seen, ended, err)
		}
	}
}
