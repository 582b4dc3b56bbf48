package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func joinCommand() *cobra.Command {
	var token, from, file string
	cmd := &cobra.Command{
		Use:   "join --token-file FILE",
		Short: "Give the agent another token for its certificate",
		Long: `Write a token into the file of --caToken, as a whole, for its owner alone. With --token other users of the machine see it in the list of processes,
not with --token-file. A running agent that has no certificate reads it within a second, and
asks the authority again: Envoy is not restarted. What root writes is for the owner of the file before, or else of its directory, as the agent's
user is; where others may write to the directory it is for root.`,
		Example: "  ssh discovery discovery token create --namespace shop --service-account web --once | agent join --token-file -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				file = environ.Parse(os.Environ())["PILOTLIGHT_CA_TOKEN"]
			}
			if from != "" && token != "" {
				return setting.Usage("agent", errors.New("--token and --token-file are given: want one of them"))
			}
			if from != "" {
				text, err := readToken(cmd.InOrStdin(), from, cmd.PrintErrf)
				if err != nil {
					return fmt.Errorf("read the token: %w", err)
				}
				token = text
			}
			if strings.TrimSpace(token) == "" || file == "" {
				return setting.Usage("agent", errors.New("--token-file, --token or --caToken is missing: want a token, and the file in which the agent looks for it"))
			}
			user, err := replace(file, strings.TrimSpace(token)+"\n")
			if err != nil {
				return fmt.Errorf("the token is not written: %w", err)
			}
			cmd.PrintErrf("token written to %s, for user %d alone\n", file, user)
			return nil
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "the token, as discovery token create prints it; other users of the machine see it in the list of processes: prefer --token-file")
	cmd.Flags().StringVar(&from, "token-file", "", "the file that has the token, - for standard input")
	cmd.Flags().StringVar(&file, "caToken", "", "the file, as agent proxy has it ($PILOTLIGHT_CA_TOKEN)")
	return cmd
}

// maxToken is the longest token that is read, in bytes.
const maxToken = 64 << 10

// readToken returns the content of a file, or of in for "-". It warns of a file that all users of the machine may read.
func readToken(in io.Reader, path string, warn func(format string, args ...any)) (string, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return "", err
		}
		if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o004 != 0 {
			warn("warning: %s: has mode %04o, so all users of the machine may read the token: chmod 600 %s\n", path, mode.Perm(), path)
		}
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken+1))
	if err == nil && len(text) > maxToken {
		err = fmt.Errorf("%s: has more than %d bytes, want a token", path, maxToken)
	}
	return string(text), err
}

// replace writes a file of mode 0600 whole, or leaves the one before. It returns the user that may read it.
func replace(path, content string) (user int, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return 0, err
	}
	user, group := reader(path)
	_, err = file.WriteString(content)
	if user != os.Geteuid() {
		err = errors.Join(err, file.Chown(user, group))
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(file.Name()))
	}
	return user, nil
}

// reader returns the user and the group that a file is for which root writes: an agent runs as another user, who owns the file before, or the
// directory. Where others may write, the owner says nothing: a neighbour may have put the file there.
func reader(path string) (user, group int) {
	user, group = os.Geteuid(), os.Getegid()
	var dir, before unix.Stat_t
	if user != 0 || unix.Stat(filepath.Dir(path), &dir) != nil || dir.Mode&0o022 != 0 {
		return user, group
	}
	if unix.Lstat(path, &before) == nil && before.Uid != 0 {
		return int(before.Uid), int(before.Gid)
	}
	return int(dir.Uid), int(dir.Gid)
}
