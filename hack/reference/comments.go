package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// module is the Go module whose comments are read.
const module = "github.com/kedify/argo-rollouts-plugin"

// comments reads the comments of types of this module from its sources.
type comments struct {
	root string
	// packages has the packages that were read, by their paths.
	packages map[string]*sources
}

// sources are a package's files, and what they say.
type sources struct {
	files []*ast.File
	// values has the expression of each constant and variable.
	values map[string]ast.Expr
	// types has the comment of each type, fields that of each field of a struct, by type and
	// name.
	types, fields map[string]string
	// constants has the values of the constants of each type of strings.
	constants map[string][]string
}

// of returns the sources of a type's package, empty for a type of another module.
func (c *comments) of(t reflect.Type) (*sources, error) {
	folder, ours := strings.CutPrefix(t.PkgPath(), module+"/")
	if !ours {
		return &sources{}, nil
	}
	if read := c.packages[folder]; read != nil {
		return read, nil
	}
	read, err := readSources(filepath.Join(c.root, filepath.FromSlash(folder)))
	if err != nil {
		return nil, err
	}
	c.packages[folder] = read
	return read, nil
}

func readSources(folder string) (*sources, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	read := &sources{values: map[string]ast.Expr{}, types: map[string]string{}, fields: map[string]string{}, constants: map[string][]string{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		read.files = append(read.files, file)
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				read.take(general)
			}
		}
	}
	if len(read.files) == 0 {
		return nil, fmt.Errorf("there are no Go files in %s", folder)
	}
	return read, nil
}

func (s *sources) take(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.types[spec.Name.Name] = spec.Doc.Text()
			if spec.Doc == nil {
				s.types[spec.Name.Name] = declaration.Doc.Text()
			}
			if object, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range object.Fields.List {
					for _, name := range field.Names {
						s.fields[spec.Name.Name+"."+name.Name] = field.Doc.Text()
					}
				}
			}
		case *ast.ValueSpec:
			for i, value := range spec.Values {
				s.values[spec.Names[i].Name] = value
			}
			of, ok := spec.Type.(*ast.Ident)
			if !ok || declaration.Tok != token.CONST {
				continue
			}
			for _, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						s.constants[of.Name] = append(s.constants[of.Name], text)
					}
				}
			}
		}
	}
}

// comment is a comment that has been read: its text, and what its last paragraph says of
// the default.
type comment struct {
	text, standard string
}

// readComment returns the comment of a Go name, with the name that users know in its place.
func readComment(text, goName, shown string) (comment, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), goName+" ")
	if !ok {
		return comment{}, fmt.Errorf("want a comment that begins with %s and says what it means to a Rollout's author", goName)
	}
	var c comment
	body, last, several := cutLast(text, "\n\n")
	switch standard, hasDefault := strings.CutPrefix(last, "Default: "); {
	case several && last == "Required.":
		text, c.standard = body, "required"
	case several && hasDefault:
		text, c.standard = body, strings.TrimSuffix(oneLine(standard), ".")
	}
	c.text = shown + " " + text
	return c, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+len(separator):], true
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
