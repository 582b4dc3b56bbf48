package plane

import (
	"net/url"

	"github.com/pilotlight/pilotlight/discovery/explain"
)

// explain answers what becomes of one request in the mesh that proxies are served.
func (p *Plane) explain(values url.Values) (road any, text string, err error) {
	q, err := explain.ParseValues(values)
	if err != nil {
		return nil, "", err
	}
	var connected []explain.Connected
	for _, r := range p.proxies.Readers() {
		connected = append(connected, explain.Connected(r))
	}
	made, err := q.AnswerOf(p.proxies.Mesh(), connected)
	if err != nil {
		return nil, "", err
	}
	return made, made.Text(), nil
}
