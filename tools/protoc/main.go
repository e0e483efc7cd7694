// Command protoc makes the Go code of a .proto file, which imports no other, beside it. It
// stands in for protoc, which is no Go program, and runs protoc's plugins for Go.
//
//	go -C tools/protoc run . DIRECTORY FILE
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("expected DIRECTORY FILE")
	}
	directory, file := args[0], args[1]
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{directory}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become those of the code
	}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, request, directory); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// generate gives a plugin the request, and writes the files of its answer.
func generate(plugin string, request []byte, directory string) error {
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return err
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(text, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(answer.GetError())
	}
	for _, file := range answer.File {
		if err := os.WriteFile(filepath.Join(directory, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
