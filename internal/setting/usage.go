package setting

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// UsageError is a fault of flags, arguments or environment.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usage joins faults to one UsageError with a line for each fault. Each line begins with the program's name, except the
// first one, before which main writes it. Nil faults are left out; without any fault it returns nil.
func Usage(program string, faults ...error) error {
	var all *multierror.Error
	for _, fault := range faults {
		all = multierror.Append(all, fault)
	}
	if all.ErrorOrNil() == nil {
		return nil
	}
	separator := "\n"
	if program != "" {
		separator += program + ": "
	}
	all.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, separator)
	}
	return UsageError{all}
}

// Report writes the error with which a command ends, after the program's name. To a usage error it adds how to get the
// usage. command is the full command: "agent proxy". Words of others in it, as of a server, do not command a terminal.
func Report(w io.Writer, command string, err error) {
	program, _, _ := strings.Cut(command, " ")
	text := strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error())
	fmt.Fprintf(w, "%s: %s\n", program, text)
	if errors.As(err, &UsageError{}) {
		fmt.Fprintf(w, "Run '%s --help' for usage.\n", command)
	}
}

// UnknownCommand returns the error for an argument of a program that is none of its commands, with the one that it most
// likely means, or else all.
func UnknownCommand(program, given string, known []string) error {
	hint := ", want one of " + strings.Join(known, ", ")
	if near := spelling.Nearest(given, known); near != "" {
		hint = ", did you mean " + near + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", given, program, hint)
}
