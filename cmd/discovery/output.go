package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// outputFlag is the format in which a command prints its result.
type outputFlag string

const (
	outputText outputFlag = "text"
	outputJSON outputFlag = "json"
)

func (o *outputFlag) String() string { return string(*o) }
func (o *outputFlag) Type() string   { return "text|json" }

func (o *outputFlag) Set(s string) error {
	if s != string(outputText) && s != string(outputJSON) {
		return fmt.Errorf("is %q, want text or json", s)
	}
	*o = outputFlag(s)
	return nil
}

// addOutput adds the flag -o to a command.
func addOutput(cmd *cobra.Command) *outputFlag {
	o := outputText
	cmd.Flags().VarP(&o, "output", "o", "form of the output")
	return &o
}

// print writes a value in the form of the flag; text is its text.
func (o *outputFlag) print(w io.Writer, value any, text string) error {
	if *o == outputJSON {
		return writeJSON(w, value)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
