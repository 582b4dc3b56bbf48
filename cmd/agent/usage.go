package main

import (
	"errors"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// Exit statuses. 0 means success.
const (
	exitConfiguration = 1 // the configuration, or something that it refers to, cannot be used
	exitUsage         = 2 // flags, arguments or environment are wrong
	exitGaveUp        = 3 // Envoy could not be kept alive
)

func exitStatus(err error) int {
	var usage setting.UsageError
	var gaveUp *agent.GaveUp
	var ended *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.status
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &gaveUp) && !gaveUp.Refused:
		return exitGaveUp
	}
	return exitConfiguration
}

// exit is an error with its own exit status.
type exit struct {
	status int
	error  // nil if the status is enough
}

func (e *exit) Unwrap() error { return e.error }

func (e *exit) Error() string {
	if e.error == nil {
		return ""
	}
	return e.error.Error()
}

// usage joins faults to one error. Each fault names its flag, variable or line. Without faults it returns nil.
func usage(faults *multierror.Error) error { return setting.Usage("agent", faults.WrappedErrors()...) }

// usageOf makes a usage error of the faults in a proxy's configuration. It returns any other error unchanged.
func usageOf(err error) error {
	var faults *multierror.Error
	if errors.As(err, &faults) {
		return usage(faults)
	}
	return err
}
