package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/turnfold/turnfold"

// file is what the rules need to know of a Go file.
type file struct {
	path, dir, pkg string
	test           bool
	doc            string
	imports        []string
	lines          int
	inexact        []string // floating point types and literals
	walls          []string // uses of the wall clock
}

// tree is the module's source, and what lies at its top.
type tree struct {
	files []file
	top   []fs.DirEntry
}

func load(fsys fs.FS) (tree, error) {
	var t tree
	var err error
	if t.top, err = fs.ReadDir(fsys, "."); err != nil {
		return t, err
	}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (d.Name()[0] == '.' || d.Name()[0] == '_' || d.Name() == "testdata") {
			return fs.SkipDir
		}
		// A module of its own has dependencies of its own, and is no part of the product.
		if _, err := fs.Stat(fsys, path.Join(p, "go.mod")); d.IsDir() && p != "." && err == nil {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(p) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		f, err := read(p, src)
		t.files = append(t.files, f)
		return err
	})
	return t, err
}

func read(p string, src []byte) (file, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, fmt.Errorf("parse: %w", err)
	}
	f := file{path: p, dir: path.Dir(p), pkg: parsed.Name.Name, test: strings.HasSuffix(p, "_test.go"),
		doc: parsed.Doc.Text(), lines: bytes.Count(src, []byte("\n"))}
	for _, i := range parsed.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return f, fmt.Errorf("import of %s: %w", p, err)
		}
		f.imports = append(f.imports, name)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if slices.Contains([]string{"float32", "float64", "complex64", "complex128"}, n.Name) {
				f.inexact = append(f.inexact, n.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT || n.Kind == token.IMAG {
				f.inexact = append(f.inexact, n.Value)
			}
		case *ast.CallExpr:
			if w := wallOf(n); w != "" {
				f.walls = append(f.walls, w)
			}
		case *ast.Field:
			if wallField(n) {
				f.walls = append(f.walls, "a time in JSON")
			}
		}
		return true
	})
	return f, nil
}

// within reports whether p is parent or lies under it.
func within(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

// internal gives the package of this module that an import names.
func internal(name string) (string, bool) {
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}

// fits compares a package with one side of an arrow, where * is any package and x/*
// any package under x.
func fits(p, side string) bool {
	parent, many := strings.CutSuffix(side, "/*")
	return side == "*" || side == p || many && p != parent && within(p, parent)
}

// arrowFaults: what is in no table is forbidden, and what is in one has a reason and is
// used.
func arrowFaults(t tree) []string {
	var out []string
	used := map[string]bool{}
	for _, f := range t.files {
		for _, name := range f.imports {
			to, ok := internal(name)
			if !ok || to == f.dir {
				continue
			}
			rows := allowing(arrows, f.dir, to)
			if f.test && len(rows) > 0 {
				continue // a test may do what the code may, and is no reason to allow it
			}
			if f.test {
				rows = allowing(testArrows, f.dir, to)
			}
			for _, row := range rows {
				used[row] = true
			}
			if len(rows) == 0 {
				out = append(out, fmt.Sprintf("%s: %s -> %s is in no table; take it out, or add it with a reason", f.path, f.dir, to))
			}
		}
	}
	for _, table := range []map[string]string{arrows, testArrows} {
		for row, why := range table {
			if why == "" {
				out = append(out, row+" has no reason")
			}
			if !used[row] {
				out = append(out, row+" is in the table, and nobody needs it")
			}
		}
	}
	return out
}

// allowing lists the rows of a table that allow from -> to.
func allowing(table map[string]string, from, to string) (rows []string) {
	for row := range table {
		a, b, _ := strings.Cut(row, " -> ")
		if fits(from, a) && fits(to, b) {
			rows = append(rows, row)
		}
	}
	return rows
}

// moduleOf finds the listed module that an import path belongs to.
func moduleOf[V any](table map[string]V, name string) (string, bool) {
	for m := range table {
		if within(name, m) {
			return m, true
		}
	}
	return "", false
}

func external(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".")
}

// moduleFaults: external code comes in through its owner alone.
func moduleFaults(t tree) []string {
	var out []string
	for _, f := range t.files {
		for _, name := range f.imports {
			if _, own := internal(name); own || !external(name) {
				continue
			}
			if _, ok := moduleOf(testModules, name); ok && f.test {
				continue
			}
			m, ok := moduleOf(modules, name)
			switch o := modules[m]; {
			case !ok:
				out = append(out, fmt.Sprintf("%s imports %s, which is no permitted module", f.path, name))
			case !f.test && o.packages != nil && !slices.Contains(o.packages, f.dir):
				out = append(out, fmt.Sprintf("%s imports %s, which only %v may (%s)", f.path, name, o.packages, o.why))
			}
		}
	}
	return out
}

// pureFaults: the pure packages know no time, no chance, no outside world.
func pureFaults(t tree) []string {
	exact := []string{"github.com/go-json-experiment/json", "github.com/cockroachdb/apd/v3", "golang.org/x/text"}
	var out []string
	for _, f := range t.files {
		if f.test || !pure[f.dir] {
			continue
		}
		for _, name := range f.imports {
			bad := slices.ContainsFunc(impure, func(p string) bool { return within(name, p) })
			if _, own := internal(name); !own && external(name) && !slices.ContainsFunc(exact, func(p string) bool { return within(name, p) }) {
				bad = true
			}
			if bad {
				out = append(out, fmt.Sprintf("%s imports %s, but %s is pure", f.path, name, f.dir))
			}
		}
		if len(f.inexact) > 0 {
			out = append(out, fmt.Sprintf("%s uses %s, but %s is exact", f.path, f.inexact[0], f.dir))
		}
	}
	return out
}

// docFaults: a package says what it is.
func docFaults(t tree) []string {
	said, packages := map[string]bool{}, map[string]string{}
	for _, f := range t.files {
		if strings.HasSuffix(f.pkg, "_test") {
			continue
		}
		packages[f.dir] = f.pkg
		if strings.HasPrefix(f.doc, "Package "+f.pkg+" ") || f.pkg == "main" && strings.HasPrefix(f.doc, "Command "+path.Base(f.dir)+" ") {
			said[f.dir] = true
		}
	}
	var out []string
	for dir, pkg := range packages {
		if !said[dir] {
			out = append(out, fmt.Sprintf("%s: package %s has no comment that says what it is", dir, pkg))
		}
	}
	return out
}

func sizeFaults(t tree) []string {
	var out []string
	for _, f := range t.files {
		if f.lines > linesMax {
			out = append(out, fmt.Sprintf("%s has %d lines, more than %d: look for a second noun", f.path, f.lines, linesMax))
		}
	}
	return out
}

// topFaults: the top level is fixed.
func topFaults(t tree) []string {
	var out, dirs []string
	for _, e := range t.top {
		switch {
		case e.Name()[0] == '.':
		case e.IsDir():
			dirs = append(dirs, e.Name())
		case !slices.Contains(files, e.Name()):
			out = append(out, e.Name()+" is no file of the top level")
		}
	}
	if !slices.Equal(dirs, folders) {
		out = append(out, fmt.Sprintf("the top level has %v, it must have %v", dirs, folders))
	}
	return out
}
