package main

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// units are one of each unit of a time.Duration.
var units = map[string]string{"Second": "1s", "Minute": "1m", "Hour": "1h"}

// text returns the value of an expression of a file as a user reads it, empty where only the
// running program knows it.
func (s *sources) text(file *ast.File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
		return e.Value
	case *ast.BinaryExpr: // texts, or a number of units
		y := s.text(file, e.Y)
		if e.Op == token.MUL {
			y = y[1:]
		}
		return s.text(file, e.X) + y
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return e.Name
		}
		if s.values[e.Name] != nil {
			return s.text(file, s.values[e.Name])
		}
	case *ast.SelectorExpr:
		of, _ := e.X.(*ast.Ident)
		for _, imported := range file.Imports {
			folder, ours := strings.CutPrefix(s.text(file, imported.Path), module+"/")
			if !ours || of == nil || path.Base(folder) != of.Name {
				continue
			}
			if other, err := readSources(folder); err == nil {
				return other.text(other.files[0], other.values[e.Sel.Name])
			}
		}
		return units[e.Sel.Name]
	}
	return ""
}

// option returns the value of a field of a literal.
func (s *sources) option(file *ast.File, of *ast.CompositeLit, field string) string {
	for _, element := range of.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == field {
			return s.text(file, pair.Value)
		}
	}
	return ""
}

// texts returns the values of a list, which may be another one to which more are appended.
func (s *sources) texts(file *ast.File, e ast.Expr) []string {
	var all []string
	switch e := e.(type) {
	case *ast.Ident:
		return s.texts(file, s.values[e.Name])
	case *ast.SliceExpr:
		return s.texts(file, e.X)
	case *ast.CompositeLit:
		for _, value := range e.Elts {
			all = append(all, s.text(file, value))
		}
	case *ast.CallExpr:
		all = s.texts(file, e.Args[0])
		for _, value := range e.Args[1:] {
			all = append(all, s.text(file, value))
		}
	}
	return all
}
