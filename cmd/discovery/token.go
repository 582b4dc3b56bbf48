package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens by which machines join",
		Long: `A machine without a token of Kubernetes shows a join token when it asks for its first certificate; it renews by the certificate. The tokens are kept as
hashes: in --caDir, so that these commands run where discovery runs, as its user; or with --caSecret in the Secret NAME-join-tokens beside it, which replicas
share. A running discovery follows them.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	place := addPlace(cmd)
	cmd.AddCommand(newTokenCreate(place), newTokenList(place), newTokenRevoke(place))
	return cmd
}

func newTokenCreate(place *plane.Place) *cobra.Command {
	var namespace, account, file string
	var ttl time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "create --namespace NAMESPACE --service-account ACCOUNT",
		Short: "Make a join token, and print it or write it to a file",
		Long: `Make a join token, and print it or write it to the file of --out: this is the only time that it can be seen. A machine that shows it gets certificates of the service account, until the
token ends or is revoked. With --once the first key that comes with it is the only one.`,
		Example: "  discovery token create --namespace shop --service-account web --ttl 10m --once --out web.token",
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "namespace of the service account")
	cmd.Flags().StringVar(&account, "service-account", "", "the service account")
	cmd.Flags().DurationVar(&ttl, "ttl", 10*time.Minute, "how long the token may be used, at most 720h")
	cmd.Flags().StringVar(&file, "out", "", "file for the token, which only its user can read; if empty, it is printed")
	cmd.Flags().BoolVar(&once, "once", false, "for one machine: the first key that it is shown with is the only one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if namespace == "" || account == "" {
			return setting.Usage("discovery", errors.New("--namespace and --service-account are missing: want the service account that the machine becomes"))
		}
		said, err := place.CreateToken(cmd.Context(), cmd.OutOrStdout(), file, namespace, account, ttl, once)
		if said != "" {
			cmd.PrintErrln(said)
		}
		return err
	}
	return cmd
}

func newTokenList(place *plane.Place) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the join tokens", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return place.ListTokens(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func newTokenRevoke(place *plane.Place) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a join token",
		Long:  "End a join token. Certificates that it has brought are renewed by themselves, and live on.",
		Args:  subcommand.Count(1, 1, "the ID of a join token, as discovery token list shows it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := place.RevokeToken(cmd.Context(), args[0]); err != nil {
				return err
			}
			cmd.PrintErrf("join token %s revoked\n", args[0])
			return nil
		},
	}
}
