package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/ca/keep"
	"github.com/pilotlight/pilotlight/discovery/plane"
)

func newCA() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ca", Short: "Replace the root of the authority", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Begin to replace the root and key of --caDir, or say how far that is",
		Long: `Make a new root and key beside those of --caDir, as the user of discovery, where it runs. A running discovery replaces the old ones in steps: agents get
both roots with their next certificate; after --caMaxTTL the new one signs; when no certificate of the old one lives, that is forgotten. Called again,
the command says how far that is. An authority of --caSecret is not rotated by it.`,
		Args: noArgs,
	}
	dir := rotate.Flags().String("caDir", cmp.Or(os.Getenv("PILOTLIGHT_CA_DIR"), plane.AuthorityDir), "directory of the authority, as serve has it")
	abort := rotate.Flags().Bool("abort", false, "keep the old root, as long as the new one has signed nothing")
	rotate.RunE = func(cmd *cobra.Command, _ []string) error {
		if *abort {
			return keep.Abort(*dir, time.Now())
		}
		r, err := keep.Rotate(*dir, time.Now())
		if err != nil {
			return fmt.Errorf("rotate the root: %w", err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "from root %.16s to %.16s, %s: %s\n", r.Old, r.New, r.Phase, r.Waits)
		return err
	}
	cmd.AddCommand(rotate)
	return cmd
}
