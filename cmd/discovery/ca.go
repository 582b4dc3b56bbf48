package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/plane"
)

// addPlace adds the flags that name an authority to a command and those below it, which then find it in the place.
func addPlace(cmd *cobra.Command) *plane.Place {
	p, flags := &plane.Place{}, cmd.PersistentFlags()
	flags.StringVar(&p.Dir, "caDir", "", "directory of the authority, as serve has it; if empty, $PILOTLIGHT_CA_DIR, then "+plane.AuthorityDir)
	flags.StringVar(&p.Secret, "caSecret", "", "NAMESPACE/NAME of the Secret of an authority that replicas share, as serve has it; if empty, $PILOTLIGHT_CA_SECRET")
	flags.StringVar(&p.Access.File, "kubeconfig", "", "kubeconfig file of the API server with that Secret; if empty, $KUBECONFIG, then ~/.kube/config, then the cluster whose Pod this is")
	flags.StringVar(&p.Access.Context, "context", "", "context of the kubeconfig file; if empty, its current one")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return usage(p.Settle(os.Getenv, userAgent())) }
	return p
}

func newCA() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ca", Short: "Show and replace the root of the authority", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Begin to replace the root and key of the authority, or print how far that is",
		Long: `Make a new root and key beside those of the authority: of --caDir, as the user of discovery, where it runs; or of --caSecret, from anywhere with the
right to list and update that Secret. Running discoveries replace the old ones in steps: agents get both roots within minutes; after --caMaxTTL, or
--rootOverlap where that is longer, the new one signs; when no certificate of the old one lives, that is forgotten. While that is under way the command prints how far it is, as discovery ca status does. Within a life
of certificates after its end, another rotation takes --again. A root that was not made by discovery is not replaced: put the files of its successor in place
of those of --caDir, and a running discovery with --stateDir does the same steps (docs/certificates.md).

The time is what proves that each agent trusts the new root, those that are cut off too: a certificate that lives after it was signed with both roots. So no
step waits for an agent, and none is done before its time because all have acknowledged.

All discoveries of one authority need the same --caMaxTTL before a rotation begins: one that does not run now cannot say how long its certificates live.
Running ones whose --caMaxTTL differs are named, and the longest counts.

With --now, for a key that has leaked, no step waits: the new root of a rotation that is under way, or the files that were put in place, are used within
seconds, and the command prints what breaks.`,
		Args: noArgs,
	}
	abort := rotate.Flags().Bool("abort", false, "keep the old root, as long as the new one has signed nothing")
	again := rotate.Flags().Bool("again", false, "begin another rotation, within a life of certificates after the last one")
	now := rotate.Flags().Bool("now", false, "use the new root, or the new files of --caDir, at once, whether agents trust it or not: for a key that has leaked")
	place := addPlace(cmd)
	rotate.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *now && (*abort || *again):
			return usage(errors.New("--now is given with --abort or --again, want one of them"))
		case *now:
			return place.RotateNow(cmd.OutOrStdout())
		}
		return place.Rotate(cmd.Context(), cmd.OutOrStdout(), *abort, *again)
	}
	cmd.AddCommand(rotate, &cobra.Command{
		Use:   "status",
		Short: "Print which root signs, and how far its rotation is",
		Long:  "Print which root signs, until when it is valid, and how far its rotation is. It changes nothing.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return place.Status(cmd.Context(), cmd.OutOrStdout())
		},
	})
	return cmd
}
