package crd

import (
	"fmt"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// reference is made once: it reads a megabyte of definitions.
var reference = sync.OnceValues(New)

// Sound returns what discovery's validation or an API server would refuse in a text of YAML documents, nil where both take it.
func Sound(text []byte) error {
	if _, problems := config.Decode("", text); config.HasErrors(problems) {
		return fmt.Errorf("discovery would not take this: %v", problems)
	}
	server, err := reference()
	if err != nil {
		return err
	}
	documents, err := Documents(text)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if faults, known := server.Judge(document); !known || len(faults) > 0 {
			return fmt.Errorf("an API server would not take this: %q:\n%s", faults, document)
		}
	}
	return nil
}
