package bootstrap

import (
	"fmt"

	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/templates"
)

// Render returns the bootstrap of the node's role, as indented JSON.
func Render(p Params) ([]byte, error) {
	text := templates.Sidecar
	if p.Node.Role == node.Ingress || p.Node.Role == node.Router {
		text = templates.Gateway
	}
	return render(executeOwn, text, p)
}

// RenderTemplate renders a template of the user's own, which must yield a JSON object; docs/bootstrap.md tells the
// keys, and the parts that it may take over. Values are written as JSON whether or not the template says so, so that
// none can break the document. An error names the line of the template, or of what it yields.
func RenderTemplate(text string, p Params) ([]byte, error) {
	return render(execute, text, p)
}

func render(execute func(string, Params) ([]byte, error), text string, p Params) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	rendered, err := execute(text, p)
	if err != nil {
		return nil, err
	}
	return indent(rendered)
}
