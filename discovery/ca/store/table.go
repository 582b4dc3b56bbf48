package store

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Table writes tokens as a table, with their states at a time.
func Table(w io.Writer, all ca.Tokens, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAMESPACE\tSERVICE ACCOUNT\tSTATE\tONCE\tEXPIRES\tLAST USED")
	for _, t := range all {
		used := "never"
		if !t.Used.IsZero() {
			used = t.Used.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%t\t%s\t%s\n", t.ID, t.Namespace, t.ServiceAccount, t.State(now), t.Once, t.Expires.Format(time.RFC3339), used)
	}
	return table.Flush()
}
