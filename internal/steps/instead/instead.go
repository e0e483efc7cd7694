// Package instead says what to write in place of what people know from other step plugins, and
// this one does not have: a program that runs in the controller's pod, and a service that sends
// messages.
package instead

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// These are kinds of steps that there are not.
const (
	exec   = "exec"
	notify = "notify"
)

const (
	noExec   = "no step runs a program in the controller's pod, whose token reads all Secrets and whose image has no programs. Run it in a Job: "
	noNotify = "a message is a request to a chat, which an admin can make a preset (use: <name>): "
	noEmail  = "; for email, and for messages about aborts and ends, take Argo Rollouts' own notifications: docs/how-to/step-http.md"
	// maxShown bounds what is repeated of a configuration, in bytes.
	maxShown = 300
)

// words are what people write for the two.
var words = map[string]string{"exec": exec, "command": exec, "script": exec, "shell": exec, "notify": notify, "notification": notify, "notifications": notify}

// Of returns what to write in place of a kind of step, or of a key of a configuration with its
// value; empty where there is nothing to say.
func Of(word string, value any) string {
	switch words[word] {
	case exec:
		return noExec + shown(job(commandIn(value)))
	case notify:
		return noNotify + shown(request(textIn(value))) + noEmail
	}
	return ""
}

// In returns what to write in place of the first key of an object for which there is something to
// say, and the key; empty where there is none.
func In(object map[string]any) (key, said string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if said := Of(key, object[key]); said != "" {
			return key, said
		}
	}
	return "", ""
}

// commandIn returns the command of a container for what somebody has given as one.
func commandIn(value any) []string {
	switch value := value.(type) {
	case string:
		if value != "" && len(value) <= maxShown {
			return []string{"sh", "-c", value}
		}
	case []any:
		var command []string
		size := 0
		for _, item := range value {
			text, isText := item.(string)
			if size += len(text); !isText || size > maxShown {
				return commandIn(nil)
			}
			command = append(command, text)
		}
		if len(command) > 0 {
			return command
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if words[key] == exec {
				return commandIn(value[key])
			}
		}
	}
	return []string{"sh", "-c", "echo hello world"}
}

// textIn returns the text of a message for what somebody has given as one.
func textIn(value any) string {
	switch value := value.(type) {
	case string:
		if value != "" && len(value) <= maxShown {
			return value
		}
	case map[string]any:
		for _, key := range []string{"message", "text", "template"} {
			if text, isText := value[key].(string); isText {
				return textIn(text)
			}
		}
	}
	return "{{ rollout.name }}, revision {{ revision }}, has begun"
}

func job(command []string) any {
	container := struct {
		Name    string   `json:"name"`
		Image   string   `json:"image"`
		Command []string `json:"command"`
	}{"main", "busybox:1.37", command}
	return within(map[string]any{"containers": []any{container}}, "job", "template", "spec")
}

func request(text string) any {
	return within(struct {
		URL  any `json:"url"`
		JSON any `json:"json"`
	}{within(struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	}{"chat", "url"}, "valueFrom", "secretKeyRef"), map[string]string{"text": text}}, "http", "request")
}

// within returns an object with a value at a path.
func within(value any, path ...string) any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value
}

// shown is a value as YAML has it, too.
func shown(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // never: it is made of texts
	}
	return strings.TrimSpace(text.String())
}
