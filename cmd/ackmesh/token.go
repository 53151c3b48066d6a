package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ackmesh/ackmesh/server/auth"
)

// tokenCommand is "ackmesh token" with its commands.
func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsCommand,
	}
	cmd.AddCommand(a.tokenNew(), a.tokenHash())
	return cmd
}

func (a *app) tokenNew() *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Print a new token",
		Long: `Print a new token of 256 random bits. Give it to who is to use it; the server gets
its hash only, in the tokens file (auth.tokens-file).`,
		Example: `  ackmesh token new > orders.token
  ackmesh token hash < orders.token`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, auth.NewToken())
			return err
		},
	}
}

func (a *app) tokenHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token, for the tokens file",
		Long:  "Read a token from standard input and print its hash, as sha256 has it in the tokens file.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			line, err := bufio.NewReader(io.LimitReader(a.in, auth.MaxToken+2)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			token := strings.TrimSpace(line)
			if err := auth.CheckToken(token); err != nil {
				return fmt.Errorf("what was read is no token: %w", err)
			}
			_, err = fmt.Fprintln(a.out, auth.HashOf(token))
			return err
		},
	}
}
