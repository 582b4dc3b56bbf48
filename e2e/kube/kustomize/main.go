// Kustomize writes what a kustomization makes, as kubectl apply -k takes it: kustomize DIRECTORY.
//
// It is the library that kubectl has. It reads files below the directory's root and nothing of the network.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kustomize:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one directory, got %q", args)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), args[0])
	if err != nil {
		return fmt.Errorf("build %s: %w", args[0], err)
	}
	text, err := made.AsYaml()
	if err != nil {
		return fmt.Errorf("write %s: %w", args[0], err)
	}
	_, err = os.Stdout.Write(text)
	return err
}
