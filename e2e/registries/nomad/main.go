package main

import (
	"os"

	// Nomad starts itself again as these, for each task.
	_ "github.com/hashicorp/nomad/client/logmon"
	_ "github.com/hashicorp/nomad/drivers/shared/executor"

	"github.com/hashicorp/cli"
	"github.com/hashicorp/nomad/command"
)

func main() {
	ui := &cli.BasicUi{Reader: os.Stdin, Writer: os.Stdout, ErrorWriter: os.Stderr}
	c := cli.NewCLI("nomad", "")
	c.Args = os.Args[1:]
	c.Commands = command.Commands(&command.Meta{Ui: ui}, ui)
	status, err := c.Run()
	if err != nil {
		panic(err)
	}
	os.Exit(status)
}
