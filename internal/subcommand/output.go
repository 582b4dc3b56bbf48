package subcommand

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Output is the format in which a command prints its result.
type Output string

// The formats.
const (
	Text Output = "text"
	JSON Output = "json"
)

// String implements pflag.Value.
func (o *Output) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *Output) Type() string { return "text|json" }

// Set implements pflag.Value.
func (o *Output) Set(s string) error {
	if s != string(Text) && s != string(JSON) {
		return fmt.Errorf("is %q, want text or json", s)
	}
	*o = Output(s)
	return nil
}

// AddOutput adds the flag -o to a command.
func AddOutput(cmd *cobra.Command) *Output {
	o := Text
	cmd.Flags().VarP(&o, "output", "o", "form of the output")
	return &o
}

// Print writes a value in the form of the flag; text is its text.
func (o *Output) Print(w io.Writer, value any, text string) error {
	if *o == Text {
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
