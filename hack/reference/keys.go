package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// part is a section of the page: an object, and the objects that are in it.
type part struct {
	title string
	// name is the users' name for the object, in Markdown.
	name string
	of   reflect.Type
}

// reference makes the page.
type reference struct {
	comments comments
	// sections has the title of the section of each object that has one so far.
	sections map[reflect.Type]string
}

func newReference(root string) *reference {
	return &reference{comments{root, map[string]*sources{}}, map[reflect.Type]string{}}
}

// words are the names of a type, for one value and for several.
type words struct{ one, several string }

// elsewhere are types that the page does not describe key by key.
var elsewhere = map[reflect.Type]words{
	reflect.TypeFor[metav1.Duration]():      {one: "duration"},
	reflect.TypeFor[json.RawMessage]():      {one: "any value"},
	reflect.TypeFor[secret.Value]():         {"string, or a [reference](#references-to-secrets)", "strings or [references](#references-to-secrets)"},
	reflect.TypeFor[batchv1.JobSpec]():      {one: "[JobSpec](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobSpec)"},
	reflect.TypeFor[metav1.LabelSelector](): {one: "[LabelSelector](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/#LabelSelector)"},
}

// page returns the sections of the parts. It is an error when a key has no comment.
func (r *reference) page(parts []part) (string, error) {
	for _, p := range parts {
		r.sections[p.of] = p.title
	}
	var page strings.Builder
	for _, p := range parts {
		if err := r.part(&page, p); err != nil {
			return "", err
		}
	}
	return page.String(), nil
}

// part writes the section of an object, and below it those of the objects that are in it.
func (r *reference) part(page *strings.Builder, p part) error {
	level, rest := "###", []part{p}
	for len(rest) > 0 {
		p, rest = rest[0], rest[1:]
		fmt.Fprintf(page, "\n%s %s\n\n", level, p.title)
		inner, err := r.section(page, p)
		if err != nil {
			return err
		}
		level, rest = "####", append(inner, rest...)
	}
	return nil
}

// section writes what there is to say of one object. It returns the objects that are in it
// and have no section yet.
func (r *reference) section(page *strings.Builder, p part) (inner []part, err error) {
	source, err := r.comments.of(p.of)
	if err != nil {
		return nil, err
	}
	c, err := readComment(source.types[p.of.Name()], p.of.Name(), p.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.of, err)
	}
	page.WriteString(c.text + "\n")
	var others []string
	page.WriteString("\n| key | type | default | meaning |\n|---|---|---|---|\n")
	for _, key := range strict.Keys(p.of) {
		if key.In != p.of {
			title, ok := r.sections[key.In]
			words, told := elsewhere[key.In]
			if !ok && !told {
				return nil, fmt.Errorf("%s: the keys of %s, which is embedded, are told nowhere", p.of, key.In)
			}
			other := words.one
			if ok {
				other = link(title)
			}
			if !slices.Contains(others, other) {
				others = append(others, other)
			}
			continue
		}
		c, err := readComment(source.fields[p.of.Name()+"."+key.Field.Name], key.Field.Name, "`"+key.Name+"`")
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", p.of, key.Field.Name, err)
		}
		if strings.Contains(c.text, "\n\t") {
			return nil, fmt.Errorf("%s.%s: a cell of a table has no preformatted text: put it into the comment of %s", p.of, key.Field.Name, p.of.Name())
		}
		if object := structOf(key.Field.Type); object != nil && r.sections[object] == "" {
			r.sections[object] = "`" + key.Name + "`"
			inner = append(inner, part{r.sections[object], r.sections[object], object})
		}
		shown, err := r.typeOf(key.Field.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", p.of, key.Field.Name, err)
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", key.Name, shown, cell(c.standard), cell(c.text))
	}
	if len(others) > 0 {
		fmt.Fprintf(page, "\nIt also has the keys of %s.\n", strings.Join(others, " and "))
	}
	return inner, nil
}

// structOf returns the struct of a key's type, or of its items, that has a section; nil if
// there is none.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if _, told := elsewhere[t]; told || t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// typeOf says what JSON a type is read from.
func (r *reference) typeOf(t reflect.Type) (string, error) {
	w, err := r.wordsFor(t)
	if err == nil && w.one == "" {
		err = fmt.Errorf("there are no words for the type %s", t)
	}
	return w.one, err
}

func (r *reference) wordsFor(t reflect.Type) (words, error) {
	if w, told := elsewhere[t]; told {
		return w, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return r.wordsFor(t.Elem())
	case reflect.Struct:
		if r.sections[t] == "" {
			return words{}, nil
		}
		return words{link(r.sections[t]), link(r.sections[t])}, nil
	case reflect.Slice:
		items, err := r.wordsFor(t.Elem())
		return items.in("list of "), err
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return words{one: "object"}, nil
		}
		values, err := r.wordsFor(t.Elem())
		return values.in("object of "), err
	case reflect.String:
		source, err := r.comments.of(t)
		if err != nil {
			return words{}, err
		}
		if values := source.constants[t.Name()]; len(values) > 0 {
			return words{one: "`" + strings.Join(values, "` or `") + "`"}, nil
		}
		return words{"string", "strings"}, nil
	case reflect.Bool:
		return words{one: "`true` or `false`"}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return words{"whole number", "whole numbers"}, nil
	default:
		return words{}, nil
	}
}

// in returns the words for a list or an object of a type.
func (w words) in(what string) words {
	if w.several == "" {
		return words{}
	}
	return words{one: what + w.several}
}

// link leads to a section of the page.
func link(title string) string {
	anchor := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(title, "`", ""), " ", "-"))
	return fmt.Sprintf("[%s](#%s)", title, anchor)
}

// cell makes a text fit into a cell of a table.
func cell(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }
