package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// addPlace adds the flags that name an authority to a command and those below it, which then find it in the place.
func addPlace(cmd *cobra.Command) *plane.AuthorityStore {
	p, flags := &plane.AuthorityStore{}, cmd.PersistentFlags()
	flags.StringVar(&p.Dir, "caDir", "", "directory of the authority, as serve has it; if empty, $PILOTLIGHT_CA_DIR, then "+plane.AuthorityDir)
	flags.StringVar(&p.Secret, "caSecret", "", "NAMESPACE/NAME of the Secret of an authority that replicas share, as serve has it; if empty, $PILOTLIGHT_CA_SECRET")
	flags.StringVar(&p.Access.File, "kubeconfig", "", "kubeconfig file of the API server with that Secret; if empty, $KUBECONFIG, then ~/.kube/config, then the cluster whose Pod this is")
	flags.StringVar(&p.Access.Context, "context", "", "context of the kubeconfig file; if empty, its current one")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return usage(p.Complete(os.Getenv, userAgent())) }
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

func newTokenCreate(place *plane.AuthorityStore) *cobra.Command {
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

func newTokenList(place *plane.AuthorityStore) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the join tokens", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return place.ListTokens(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func newTokenRevoke(place *plane.AuthorityStore) *cobra.Command {
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

const (
	shortestTTL = time.Second
	longestTTL  = 90 * 24 * time.Hour

	longestOverlap = 4 * longestTTL
)

// authority returns the settings of the authority that signs certificates of workloads.
func (s *settings) authority() []setting.Setting {
	a := &s.Authority
	return []setting.Setting{
		{
			Name: "ca", Default: "false", Kind: setting.Bool(&a.Used),
			Help: "sign certificates of workloads, by POST /v1/certificates over HTTPS at --secureGRPCAddr, for callers with a join token, a certificate of this " +
				"authority, or with --registries Kubernetes a Pod's token of its service account with the audience istio-ca; without --tlsCertFile the server's own certificate comes from it too",
		},
		{
			Name: "caDir", Default: plane.AuthorityDir, Kind: setting.Path(&a.Dir),
			Help: "directory of the authority: ca-cert.pem, ca-key.pem, root-cert.pem and cert-chain.pem, as Istio names them, and join tokens. If it has none " +
				"of these, a root is made there; a directory that lacks one of them is refused",
		},
		{
			Name: "caSecret", Kind: object(&a.Secret),
			Help: "Secret that all replicas share instead of the files of --caDir, as NAMESPACE/NAME, Istio's istio-system/cacerts; it is made if there is none, and its " +
				"roots are written into the ConfigMap istio-ca-root-cert of each namespace by the leader. Join tokens are in the Secret NAME-join-tokens beside it, and --caDir is not used",
		},
		{
			Name: "caTTL", Default: plane.AuthorityTTL.String(), Kind: setting.Duration(&a.Terms.Default, shortestTTL, longestTTL),
			Help: "how long a certificate is valid whose caller does not say",
		},
		{
			Name: "caMaxTTL", Default: plane.AuthorityTTL.String(), Kind: setting.Duration(&a.Terms.Most, shortestTTL, longestTTL),
			Help: "how long one is valid at most; what is asked beyond is cut, and the answer says so",
		},
		{
			Name: "rootOverlap", Default: "0s", Kind: setting.Duration(&a.Overlap, 0, longestOverlap),
			Help: "how long both roots are trusted at least while discovery ca rotate replaces one, before the new one signs; what the lives of certificates need is never cut",
		},
		{
			Name: "caHosts", Kind: setting.List(&a.Hosts),
			Help: "further names and addresses of the server's own certificate, beside those of its Service, its host's name and localhost",
		},
		{
			Name: "caIssuers", Kind: setting.Path(&a.Issuers),
			Help: "YAML file of the issuers whose tokens (JWT) prove an identity, each with the file of its keys, a JWKS, and the claims that give namespace and service account",
		},
	}
}

// issuers returns the settings of issuers of certificates of Gateways.
func (s *settings) issuers() []setting.Setting {
	return []setting.Setting{
		{
			Name: "acmeIssuer", Kind: setting.Parsed(&s.Issuers.Of, "issuers", "NAME=https://HOST/…[,email=ADDRESS][,roots=FILE], with semicolons between several", client.ParseIssuers),
			Help: "ACME servers that give the certificates of Gateways' servers with credentialName acme://NAME, by the directory's URL; roots are those of the server's " +
				"own certificate, PEM. Its terms of service are accepted. Keys and certificates are kept in --stateDir by one discovery alone, or in --acmeSecret",
		},
		{
			Name: "acmeGateways", Kind: setting.Parsed(&s.Issuers.Gateways, "names", "NAMESPACE/ACCOUNT, with commas between several", plane.ParseNames),
			Help: "service accounts of the gateways that answer the questions of --acmeIssuer, and get its certificates with their keys, over mutual TLS",
		},
		{
			Name: "acmeSecret", Kind: object(&s.Issuers.Secret),
			Help: "NAMESPACE/NAME of the Secret with the accounts' keys of --acmeIssuer, which replicas share; each certificate is in one of its own beside it, NAME-…, and what " +
				"replicas say of their gateways in NAME-replicas. The replica that holds the Lease orders; all serve certificates, and their gateways answer",
		},
		{
			Name: "acmeInside", Default: "false", Kind: setting.Bool(&s.Issuers.Inside),
			Help: "ask --acmeIssuer also at addresses that are not of the Internet: loopback, private, link-local and the like",
		},
	}
}
