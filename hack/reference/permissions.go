package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// permissions makes a table for each Role and ClusterRole of files. Its reasons are the
// comments above the verbs, or above a rule whose verbs are on one line. A verb without a
// comment has that of the verb above it. A file without a Role is a ServiceAccount without a
// token.
func permissions(files ...string) func() (string, error) {
	return func() (string, error) {
		var page strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			before := page.Len()
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var role rbacv1.Role
				if err := yaml.Unmarshal([]byte(document), &role); err != nil {
					return "", fmt.Errorf("%s: %w", file, err)
				}
				if len(role.Rules) == 0 {
					continue
				}
				where := "in all namespaces"
				if role.Kind == "Role" {
					where = "in " + cmp.Or(codes(role.Namespace), "one namespace")
				}
				fmt.Fprintf(&page, "[%s](../../%s) grants %s:\n\n%s", file, file, where, header("resource", "verbs", "why"))
				whys := reasonsOf(document, role.Rules)
				for i, rule := range role.Rules {
					if len(whys) != len(role.Rules) || len(whys[i]) != len(rule.Verbs) || whys[i][0] == "" {
						return "", fmt.Errorf("%s: rule %d, for %v: want a comment with the reason above it, or above its verbs", file, i+1, rule.Resources)
					}
					writeRule(&page, rule, whys[i])
				}
				page.WriteString("\n")
			}
			if page.Len() == before {
				if !strings.Contains(string(text), "automountServiceAccountToken: false") {
					return "", fmt.Errorf("%s has no rules", file)
				}
				fmt.Fprintf(&page, "[%s](../../%s) grants nothing: pods get no token for the API server.\n\n", file, file)
			}
		}
		return page.String(), nil
	}
}

// reasonsOf returns the reason of each verb of each rule.
func reasonsOf(document string, rules []rbacv1.PolicyRule) [][]string {
	var whys [][]string
	var comment, ofRule string
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "#"); ok {
			comment += text
			continue
		}
		verb, isItem := strings.CutPrefix(line, "- ")
		last := len(whys) - 1
		switch {
		case isItem && strings.HasPrefix(verb, "apiGroups:"):
			whys, ofRule = append(whys, nil), comment
		case isItem && last >= 0:
			if of := whys[last]; comment == "" && len(of) > 0 {
				comment = of[len(of)-1]
			}
			whys[last] = append(whys[last], comment)
		case strings.HasPrefix(line, "verbs: [") && last < len(rules):
			for range rules[last].Verbs {
				whys[last] = append(whys[last], ofRule)
			}
		}
		comment = ""
	}
	return whys
}

// writeRule writes a row for each reason of a rule.
func writeRule(page *strings.Builder, rule rbacv1.PolicyRule, whys []string) {
	what := codes(rule.Resources...)
	if group := strings.Join(rule.APIGroups, ""); group != "" {
		what += " of " + codes(group)
	}
	if len(rule.ResourceNames) > 0 {
		what += " named " + codes(rule.ResourceNames...)
	}
	for begin := 0; begin < len(whys); {
		end := begin + 1
		for end < len(whys) && whys[end] == whys[begin] {
			end++
		}
		page.WriteString(rowOf(what, codes(rule.Verbs[begin:end]...), whys[begin]))
		begin = end
	}
}
