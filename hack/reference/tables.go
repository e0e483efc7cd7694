package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// header begins a table.
func header(columns ...string) string {
	return rowOf(columns...) + strings.Repeat("|---", len(columns)) + "|\n"
}

// rowOf is a row of a table.
func rowOf(cells ...string) string {
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// codes lists words as code.
func codes(words ...string) string {
	if len(words) == 0 || words[0] == "" {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// asCode are words that a flag's usage or a metric's Help has without backquotes.
var asCode = regexp.MustCompile(`--[a-z][\w-]*=?|\*(\.[\w.]+)?|\[::\][:\d]*|http://[\w.:]+|/?\b[A-Za-z]+(_[A-Za-z]+)+|\bGOMEMLIMIT\b`)

func marked(text string) string { return asCode.ReplaceAllString(text, "`$0`") }

// table makes a table of the rows that a function makes of the nodes of packages. Each
// package has some.
func table(head string, folders []string, rows func(s *sources, file *ast.File, n ast.Node) (string, error)) (string, error) {
	for _, folder := range folders {
		s, err := readSources(folder)
		if err != nil {
			return "", err
		}
		before := head
		for _, file := range s.files {
			ast.Inspect(file, func(n ast.Node) bool {
				made, wrong := rows(s, file, n)
				head, err = head+made, cmp.Or(err, wrong)
				return true
			})
		}
		if err == nil && head == before {
			err = errors.New("there is nothing to list")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", folder, err)
		}
	}
	return head, nil
}

// calls returns a call of a method or of a package's function, what it is called on and its
// name; nil for another node.
func calls(n ast.Node) (call *ast.CallExpr, on, name string) {
	call, _ = n.(*ast.CallExpr)
	if call == nil {
		return nil, "", ""
	}
	function, _ := call.Fun.(*ast.SelectorExpr)
	if function == nil {
		return nil, "", ""
	}
	if of, ok := function.X.(*ast.Ident); ok {
		on = of.Name
	}
	return call, on, function.Sel.Name
}

var (
	// adds is a method of a pflag.FlagSet.
	adds = regexp.MustCompile(`^(Bool|Duration|Float64|Int|Int64|String|StringArray|StringSlice|Uint16|Uint64)(Var)?$`)
	// computed is the end of the usage of a flag whose default the program computes.
	computed = regexp.MustCompile(`^(.*) \(default:? (.*)\)$`)
)

// flags makes the table of the flags that functions of these names add in packages.
func flags(functions string, folders ...string) func() (string, error) {
	return func() (string, error) {
		return table(header("flag", "default", "meaning"), folders, func(s *sources, file *ast.File, n ast.Node) (rows string, _ error) {
			if f, ok := n.(*ast.FuncDecl); ok && slices.Contains(strings.Fields(functions), f.Name.Name) {
				ast.Inspect(f, func(n ast.Node) bool {
					rows += s.flag(file, n)
					return true
				})
			}
			return rows, nil
		})
	}
}

// flag returns the row of a flag, if a node adds one.
func (s *sources) flag(file *ast.File, n ast.Node) string {
	call, _, method := calls(n)
	if call == nil || !adds.MatchString(method) || len(call.Args) < 3 {
		return ""
	}
	of := call.Args[len(call.Args)-3:]
	name, standard, usage := s.text(file, of[0]), codes(s.text(file, of[1])), s.text(file, of[2])
	if found := computed.FindStringSubmatch(usage); found != nil {
		usage, standard = found[1], marked(found[2])
	}
	return rowOf(codes("--"+name), standard, marked(usage))
}

// ofLabel is a label's value, of which a sentence of a Help says more.
var ofLabel = regexp.MustCompile(`(\. )([a-z]+):`)

// metrics makes the table of the Prometheus metrics of packages. A comment in the expression
// that makes a metric is added to its Help, for what only Markdown can say.
func metrics(folders ...string) func() (string, error) {
	return func() (string, error) {
		return table(header("metric", "labels", "meaning"), folders, func(s *sources, file *ast.File, n ast.Node) (string, error) {
			call, on, function := calls(n)
			if call == nil || on != "prometheus" || len(call.Args) == 0 {
				return "", nil
			}
			options, _ := call.Args[0].(*ast.CompositeLit)
			var name, help string
			var labels []string
			switch {
			case function == "NewDesc":
				name, help, labels = s.text(file, call.Args[0]), s.text(file, call.Args[1]), s.texts(file, call.Args[2])
			case strings.HasPrefix(function, "New") && options != nil:
				name, help = s.option(file, options, "Name"), s.option(file, options, "Help")
				if strings.HasSuffix(function, "Vec") {
					labels = s.texts(file, call.Args[1])
				}
			default:
				return "", nil
			}
			if name == "" || help == "" {
				return "", fmt.Errorf("the metric %q has the Help %q: want both as texts", name, help)
			}
			help = ofLabel.ReplaceAllString(marked(help), "$1`$2`:")
			for _, comment := range file.Comments {
				if call.Pos() < comment.Pos() && comment.Pos() < call.End() {
					help += " " + comment.Text()
				}
			}
			return rowOf(codes(name), codes(labels...), help), nil
		})
	}
}

// says is how the comment of an Event's reason begins, after its Go name.
var says = regexp.MustCompile(`^ says on (?:an?|the) (.+?) that (.+)$`)

// events makes the table of the reasons of Events in packages. Each is a constant with the
// comment "NAME says on a KIND that MEANING". In a group of constants, all have it or none, and
// those of a type Reason have it.
func events(folders ...string) func() (string, error) {
	return func() (string, error) {
		return table(header("reason", "on", "meaning"), folders, func(s *sources, file *ast.File, n ast.Node) (string, error) {
			group, _ := n.(*ast.GenDecl)
			if group == nil {
				return "", nil
			}
			rows, without, listed := "", "", false
			for _, spec := range group.Specs {
				constant, _ := spec.(*ast.ValueSpec)
				if constant == nil {
					continue
				}
				name, comment := constant.Names[0].Name, cmp.Or(constant.Doc, group.Doc)
				found := says.FindStringSubmatch(strings.TrimPrefix(oneLine(comment.Text()), name))
				listed = listed || found != nil || strings.HasSuffix(types.ExprString(constant.Type), "Reason")
				if found == nil {
					without = name
					continue
				}
				rows += rowOf(codes(s.text(file, constant.Values[0])), found[1], found[2])
			}
			if listed && without != "" {
				return "", fmt.Errorf("%s: want the comment \"%s says on a KIND that MEANING\"", without, without)
			}
			return rows, nil
		})
	}
}
