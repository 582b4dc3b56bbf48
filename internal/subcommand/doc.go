// Package subcommand has the commands and checks that both programs have alike.
//
//	root ── arguments ──▶ Known ── no command ──▶ an error with the one that is probably meant
//	root ──▶ Completion ──▶ a script for a shell
//	-o text|json ──▶ Output ──▶ Print
//
// It knows no command of either program, and leaves exit statuses to them.
package subcommand
