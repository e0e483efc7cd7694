// Package manifest reads the documents of files of YAML or JSON, as kubectl does.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Document is one document of a file.
type Document struct {
	// Number counts the documents of the file from 1.
	Number int
	// Objects are the object in it, or those of a list, as JSON.
	Objects []json.RawMessage
	// Err is why it cannot be read.
	Err error
}

// Documents returns the documents of a file.
func Documents(file []byte) []Document {
	var documents []Document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	for i := 1; ; i++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents
		}
		if err != nil {
			return append(documents, Document{Number: i, Err: err})
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			documents = append(documents, Document{Number: i, Err: err})
			continue
		}
		documents = append(documents, Document{Number: i, Objects: objectsIn(object)})
	}
}

// objectsIn returns an object, or those of a list of them.
func objectsIn(text []byte) []json.RawMessage {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(text, &list) == nil && strings.HasSuffix(list.Kind, "List") {
		return list.Items
	}
	return []json.RawMessage{text}
}
