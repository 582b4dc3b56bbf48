package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func joinCommand() *cobra.Command {
	var token, file string
	cmd := &cobra.Command{
		Use:   "join --token TOKEN",
		Short: "Give the agent another token for its certificate",
		Long: `Write a token into the file of --caToken, as a whole, for its owner alone. A running agent that has no certificate reads it within a second, and
asks the authority again: Envoy is not restarted.`,
		Example: "  agent join --token \"$(ssh discovery discovery token create --namespace shop --service-account web --once)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				file = environ.Parse(os.Environ())["PILOTLIGHT_CA_TOKEN"]
			}
			if strings.TrimSpace(token) == "" || file == "" {
				return setting.Usage("agent", errors.New("--token or --caToken is missing: want a token, and the file in which the agent looks for it"))
			}
			if err := replace(file, strings.TrimSpace(token)+"\n"); err != nil {
				return fmt.Errorf("the token is not written: %w", err)
			}
			cmd.PrintErrf("token written to %s\n", file)
			return nil
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "the token, as discovery token create prints it")
	cmd.Flags().StringVar(&file, "caToken", "", "the file, as agent proxy has it ($PILOTLIGHT_CA_TOKEN)")
	return cmd
}

// replace writes a file of mode 0600 whole, or leaves the one before.
func replace(path, content string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
