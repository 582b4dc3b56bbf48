package setting

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

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
