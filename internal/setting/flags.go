package setting

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Flags collects the flags that were given, as text: the table parses it together with all other sources.
type Flags struct{ Given []Given }

// Register makes a flag of each setting.
func (f *Flags) Register(set *pflag.FlagSet, table Table) {
	set.SortFlags = false
	for _, s := range table.Settings {
		f.Add(set, s, s.Help+s.Kind.Hint())
	}
}

// Add makes a flag of one setting, with a help text of its own.
func (f *Flags) Add(set *pflag.FlagSet, s Setting, help string) {
	set.VarPF(&flagText{s.Name, s.Kind.Type, s.Default, &f.Given}, s.Name, "", help).NoOptDefVal = s.Kind.WithoutText()
}

// RegisterHidden makes a flag that help does not show; with bare, the flag needs no value.
func (f *Flags) RegisterHidden(set *pflag.FlagSet, name, help string, bare bool) {
	flag := set.VarPF(&flagText{name, "retired", "", &f.Given}, name, "", help)
	flag.Hidden = true
	if bare {
		flag.NoOptDefVal = "true"
	}
}

// flagText is a flag that stores its text.
type flagText struct {
	name, kind, value string
	to                *[]Given
}

func (f *flagText) String() string { return f.value }
func (f *flagText) Type() string   { return f.kind }

func (f *flagText) Set(text string) error {
	*f.to = append(*f.to, Given{Name: f.name, Text: text})
	return nil
}

// Explain adds to pflag's error about an unknown flag the name of a similar one.
func (t Table) Explain(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		err = t.Unknown("", "--", unknown.GetSpecifiedName())
	}
	return Usage("", err)
}

// Usage returns the usages of a command's flags: those of the table under the headings of its groups, in their order, then the others.
func (t Table) Usage(flags *pflag.FlagSet) string {
	var b strings.Builder
	grouped := map[string]bool{}
	for i := 0; i < len(t.Settings); {
		group := t.Settings[i].Group
		set := &pflag.FlagSet{SortFlags: false}
		for ; i < len(t.Settings) && t.Settings[i].Group == group; i++ {
			if f := flags.Lookup(t.Settings[i].Name); f != nil {
				set.AddFlag(f)
				grouped[f.Name] = true
			}
		}
		fmt.Fprintf(&b, "\n%s:\n%s", group, set.FlagUsages())
	}
	rest := &pflag.FlagSet{SortFlags: false}
	flags.VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] {
			rest.AddFlag(f)
		}
	})
	fmt.Fprintf(&b, "\nThe command itself:\n%s", rest.FlagUsages())
	return b.String()
}

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
