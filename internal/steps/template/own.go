package template

import (
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	texttemplate "text/template"

	"github.com/Masterminds/semver/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// own returns the functions that this package implements itself, because those of sprig and
// text/template have no bounds, swallow errors or return results in random order.
func own(b *bound.Budget) map[string]any {
	functions := map[string]any{
		fieldFunction:  field,
		roundsFunction: rounds(b),
		shownFunction:  shown,
		// paying, which wraps it, charges for the value.
		comparedFunction: func(value any) any { return value },

		"index":   index,
		"print":   fmt.Sprint,
		"println": fmt.Sprintln,
		"printf":  printf,
		// The Escaper functions take any number of values of any type.
		"html":     texttemplate.HTMLEscaper,
		"js":       texttemplate.JSEscaper,
		"urlquery": texttemplate.URLQueryEscaper,

		"replace": func(old, replacement, text string) (string, error) { return b.Replace(text, old, replacement, -1) },
		"trimAll": func(cutset, text string) (string, error) { return b.Trim(text, cutset) },
		"join":    func(separator string, list any) (string, error) { return b.Join(textsOf(list), separator) },
		"indent":  func(spaces int, text string) (string, error) { return indent(b, spaces, text) },
		"nindent": func(spaces int, text string) (string, error) {
			indented, err := indent(b, spaces, text)
			return "\n" + indented, err
		},
		"keys": func(objects ...map[string]any) []string {
			var all []string
			for _, object := range objects {
				all = append(all, sortedKeys(object)...)
			}
			return all
		},
		"values": func(object map[string]any) []any {
			var all []any
			for _, key := range sortedKeys(object) {
				all = append(all, object[key])
			}
			return all
		},
		"atoi": strconv.Atoi,
		"b64dec": func(text string) (string, error) {
			decoded, err := base64.StdEncoding.DecodeString(text)
			return string(decoded), err
		},
		"b32dec": func(text string) (string, error) {
			decoded, err := base32.StdEncoding.DecodeString(text)
			return string(decoded), err
		},
		"semver":        version,
		"semverCompare": compareVersion,
	}
	for name, function := range patterns(b) {
		functions[name] = function
		functions["must"+strings.ToUpper(name[:1])+name[1:]] = function
	}
	return functions
}

// maxSuggested bounds what an error shows of a wrong name, and the names that are compared
// with it to find the nearest, in bytes.
const maxSuggested = 64

// field looks up keys in an object. shown is the object's name for messages.
func field(of any, shown string, keys ...string) (any, error) {
	for _, key := range keys {
		value, err := lookUp(of, shown, key)
		if err != nil {
			return nil, err
		}
		of, shown = value, shown+"."+key
	}
	return of, nil
}

// index looks up keys and indices, each in the value that the one before it led to.
func index(of any, keys ...any) (any, error) {
	for _, key := range keys {
		switch v := reflect.ValueOf(key); {
		case v.Kind() == reflect.String:
			value, err := lookUp(of, "", v.String())
			if err != nil {
				return nil, err
			}
			of = value
		case v.CanInt():
			list := reflect.ValueOf(of)
			if kind := list.Kind(); kind != reflect.Slice && kind != reflect.Array {
				return nil, fmt.Errorf("index %d: want a list, not %s", v.Int(), bound.Kind(of))
			}
			if v.Int() < 0 || v.Int() >= int64(list.Len()) {
				return nil, fmt.Errorf("index %d: the list has %d items", v.Int(), list.Len())
			}
			of = list.Index(int(v.Int())).Interface()
		default:
			return nil, fmt.Errorf("index: want a key or a whole number, not %s", bound.Kind(key))
		}
	}
	return of, nil
}

// lookUp returns the value of a key in an object. A missing key is an error.
func lookUp(of any, shown, key string) (any, error) {
	object := reflect.ValueOf(of)
	called := shown
	if called == "" {
		called = "the value"
	}
	if object.Kind() != reflect.Map || object.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("%s.%s: %s is %s, which has no keys", shown, bound.Shorten(key, maxSuggested), called, bound.Kind(of))
	}
	value := object.MapIndex(reflect.ValueOf(key).Convert(object.Type().Key()))
	if value.IsValid() {
		return value.Interface(), nil
	}
	missing := bound.Shorten(key, maxSuggested)
	var known []string
	for _, other := range object.MapKeys() {
		if len(other.String()) <= maxSuggested {
			known = append(known, other.String())
		}
	}
	if suggestion := nearest.Word(missing, known); suggestion != "" {
		return nil, fmt.Errorf("%s.%s: there is no key %q: did you mean %q? (get is for a key that may be missing)", shown, missing, missing, suggestion)
	}
	return nil, fmt.Errorf("%s.%s: there is no key %q (get is for a key that may be missing)", shown, missing, missing)
}

// textsOf returns the items of a list that are not nil as texts. A value that is no list
// counts as a list of that one item.
func textsOf(list any) []string {
	v := reflect.ValueOf(list)
	if kind := v.Kind(); kind != reflect.Slice && kind != reflect.Array {
		if !v.IsValid() {
			return nil
		}
		return []string{fmt.Sprint(list)}
	}
	var texts []string
	for i := range v.Len() {
		if item := v.Index(i).Interface(); item != nil {
			texts = append(texts, fmt.Sprint(item))
		}
	}
	return texts
}

// maxIndent bounds an indentation, in spaces.
const maxIndent = 100

func indent(b *bound.Budget, spaces int, text string) (string, error) {
	if spaces < 0 || spaces > maxIndent {
		return "", fmt.Errorf("want 0 to %d spaces, not %d", maxIndent, spaces)
	}
	pad := strings.Repeat(" ", spaces)
	indented, err := b.Replace(text, "\n", "\n"+pad, -1)
	return pad + indented, err
}

// maxWidth bounds a width and a precision of printf.
const maxWidth = 99

// printf is fmt.Sprintf without large widths, without widths that are arguments (*), and
// without explicit argument indexes ([1]), which can use one argument many times.
func printf(format string, args ...any) (string, error) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		number := 0
	verb:
		for i++; i < len(format); i++ {
			switch at := format[i]; {
			case at == '*' || at == '[':
				return "", fmt.Errorf("%q: %%%c is not offered", bound.Shorten(format, maxSuggested), at)
			case at >= '0' && at <= '9':
				if number = number*10 + int(at-'0'); number > maxWidth {
					return "", bound.Errorf("%q: a width of more than %d is not allowed", bound.Shorten(format, maxSuggested), maxWidth)
				}
			case strings.IndexByte("+-# .", at) >= 0:
				number = 0
			default:
				break verb
			}
		}
	}
	return fmt.Sprintf(format, args...), nil
}

// maxVersion bounds a version and a constraint on one, in bytes.
const maxVersion = 256

// version returns the parts of a version.
func version(text string) (map[string]any, error) {
	if len(text) > maxVersion {
		return nil, bound.Errorf("a version of more than %d bytes is not allowed", maxVersion)
	}
	v, err := semver.NewVersion(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return map[string]any{
		"Major": int(v.Major()), "Minor": int(v.Minor()), "Patch": int(v.Patch()),
		"Prerelease": v.Prerelease(), "Metadata": v.Metadata(), "Original": v.Original(),
	}, nil
}

// compareVersion tells whether a version is within a constraint such as ">= 1.2, < 2".
func compareVersion(constraint, text string) (bool, error) {
	if len(constraint) > maxVersion || len(text) > maxVersion {
		return false, bound.Errorf("a version of more than %d bytes is not allowed", maxVersion)
	}
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		return false, fmt.Errorf("%q: %w", constraint, err)
	}
	v, err := semver.NewVersion(text)
	if err != nil {
		return false, fmt.Errorf("%q: %w", text, err)
	}
	return c.Check(v), nil
}

// patterns are the functions of regular expressions.
func patterns(b *bound.Budget) map[string]any {
	return map[string]any{
		"regexMatch": func(expression, text string) (bool, error) { return b.Match(text, expression) },
		"regexFind": func(expression, text string) (string, error) {
			found, err := findAll(b, expression, text, 1)
			return strings.Join(found, ""), err
		},
		"regexFindAll": func(expression, text string, n int) ([]string, error) {
			return findAll(b, expression, text, n)
		},
		"regexReplaceAll": func(expression, text, replacement string) (string, error) {
			return b.ReplaceMatches(text, expression, replacement, false)
		},
		"regexReplaceAllLiteral": func(expression, text, replacement string) (string, error) {
			return b.ReplaceMatches(text, expression, replacement, true)
		},
		"regexSplit": func(expression, text string, n int) ([]string, error) {
			re, _, err := b.Matches(text, expression, n)
			if err != nil {
				return nil, err
			}
			return re.Split(text, n), nil
		},
	}
}

func findAll(b *bound.Budget, expression, text string, n int) ([]string, error) {
	_, matches, err := b.Matches(text, expression, n)
	if err != nil {
		return nil, err
	}
	found := make([]string, 0, len(matches))
	for _, match := range matches {
		found = append(found, text[match[0]:match[1]])
	}
	return found, nil
}
