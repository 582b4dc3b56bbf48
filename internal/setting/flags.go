package setting

import (
	"errors"

	"github.com/spf13/pflag"
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
