package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys",
		Long: `Makes, lists and revokes API keys. The first key that is made turns authentication on:
from then on every request needs one, for good.

A server does it, with the key in APTIX_API_KEY once there is one. Where none runs at
the usual address, and none was named with --url or APTIX_URL, it is done in the data
file or the database itself; so it is with --direct, for when the last admin key is
lost. A data file is free for that while no server uses it, PostgreSQL always.

A key is of a user in an organisation, and has a role: a user sees the sessions that he
made himself, an operator all of the organisation, an admin manages its keys too.`,
	}
	group(cmd)
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysRevoke())
	return cmd
}

func newKeysCreate() *cobra.Command {
	var at keyPlace
	var k client.NewKey
	var expires string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a key, and print it this once",
		Long: `Makes a key and prints it on standard output, and nothing else there. Nobody can be told
it again: what is kept is a hash.`,
		Args: takes(0, 0, ""),
	}
	at.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&k.Org, "org", "", "organisation of the key (default: the caller's own)")
	f.StringVar(&k.User, "user", "", "user of the key")
	f.StringVar(&k.Role, "role", "user", "user, operator or admin")
	f.StringVar(&k.Name, "name", "", "what the key is called in lists")
	f.StringVar(&expires, "expires", "", "after how long it expires, such as 90d or 12h (default never)")
	f.BoolVar(&asJSON, "json", false, "print the key and what is known of it as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) (err error) {
		if k.User == "" {
			return usageError{errors.New("name the user of the key with --user"), cmd.CommandPath()}
		}
		if expires != "" {
			after, err := lifetime(expires)
			if err != nil {
				return usageError{err, cmd.CommandPath()}
			}
			end := time.Now().Add(after)
			k.ExpiresAt = &end
		}
		keys, err := at.open(cmd, true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keys.close()) }()
		created, err := keys.create(cmd.Context(), k)
		if err != nil {
			return err
		}
		until := "for ever"
		if created.ExpiresAt != nil {
			until = "until " + when(*created.ExpiresAt)
		}
		say(cmd.ErrOrStderr(), "Key %s of %s/%s, role %s, good %s; made by %s. It is shown this once:",
			created.KeyID, created.Org, created.User, created.Role, until, keys.where())
		if asJSON {
			return printJSON(cmd.OutOrStdout(), created)
		}
		say(cmd.OutOrStdout(), "%s", created.Secret)
		return nil
	})
	return cmd
}

// lifetime reads how long a key is good: days, or what Go calls a duration.
func lifetime(text string) (time.Duration, error) {
	wrong := fmt.Errorf("--expires: %q is not a time such as 90d or 12h", text)
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, perr := strconv.Atoi(days)
		if n > 100*365 {
			return 0, wrong
		}
		d, err = time.Duration(n)*24*time.Hour, perr
	}
	if err != nil || d <= 0 {
		return 0, wrong
	}
	return d, nil
}

func newKeysList() *cobra.Command {
	var at keyPlace
	var org string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys, oldest first", Args: takes(0, 0, ""),
		Long: `Lists the keys, also those that are revoked, which are never forgotten. A server lists
those of the caller's organisation.`,
	}
	at.flags(cmd)
	cmd.Flags().StringVar(&org, "org", "", "of this organisation only")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) (err error) {
		keys, err := at.open(cmd, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keys.close()) }()
		all, _, err := collect(maxListed, func(p client.Page) (client.List[client.Key], error) { return keys.list(cmd.Context(), org, p) })
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), all)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("KEY", "ORG", "USER", "ROLE", "CREATED", "STATE", "LAST USED", "NAME")
		for _, k := range all {
			used := "never"
			if k.LastUsedAt != nil {
				used = when(*k.LastUsedAt)
			}
			t.row(k.KeyID, k.Org, k.User, k.Role, when(k.CreatedAt), keyState(k), used, k.Name)
		}
		return t.flush()
	})
	return cmd
}

// keyState says whether a key is good.
func keyState(k client.Key) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked " + when(*k.RevokedAt)
	case k.ExpiresAt == nil:
		return "good"
	case time.Now().Before(*k.ExpiresAt):
		return "good until " + when(*k.ExpiresAt)
	}
	return "expired " + when(*k.ExpiresAt)
}

func newKeysRevoke() *cobra.Command {
	var at keyPlace
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Take a key back, for good",
		Long: `Takes a key back. Within a second no request is taken with it, and streams that it
opened end soon after. The last admin key of an organisation goes with --force only.`,
		Args: takes(1, 1, "the id of a key"),
	}
	at.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "also the last admin key of its organisation")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the key as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) (err error) {
		keys, err := at.open(cmd, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keys.close()) }()
		k, err := keys.revoke(cmd.Context(), args[0], force)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), k)
		}
		say(cmd.OutOrStdout(), "Key %s of %s/%s is revoked, by %s.", k.KeyID, k.Org, k.User, keys.where())
		return nil
	})
	return cmd
}
