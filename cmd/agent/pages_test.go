package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/manual"
)

func TestDocs(t *testing.T) { manual.Check(t, rootCommand(command{}), "../../docs/cli") }

// Each flag in README is a flag of agent, discovery or pod-init.
func TestREADMENamesFlagsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, cmd := range manual.All(rootCommand(command{})) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for files, flag := range map[string]string{
		"../discovery/*.go":              `"([A-Za-z]+)"`, // a flag's name stands in quotes
		"../../envoy-tools/pod-init":     `--([a-z-]+)`,
		"../../envoy-tools/pod-init.d/*": `--([a-z-]+)`,
	} {
		paths, err := filepath.Glob(files)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %q, %v", files, paths, err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(flag).FindAllStringSubmatch(string(source), -1) {
				known[match[1]] = true
			}
		}
	}
	mentioned := regexp.MustCompile("`--([A-Za-z-]+)").FindAllStringSubmatch(string(text), -1)
	for _, match := range mentioned {
		if !known[match[1]] {
			t.Errorf("README.md names --%s, which no command has", match[1])
		}
	}
	if len(mentioned) == 0 {
		t.Error("README.md names no flag: is the pattern right?")
	}
}
