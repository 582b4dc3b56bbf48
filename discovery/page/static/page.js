'use strict';
const $ = id => document.getElementById(id);
let filter = '', host = '', asking = false, again = false, faults = '';

// el makes an element; texts are never read as HTML.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  return fill(e, attributes, children);
}
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}
function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) if (value !== undefined) e.setAttribute(name, value);
  e.append(...children.filter(c => c !== undefined));
  return e;
}
const number = n => n.toLocaleString('en');
const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + 's'}`;
const clock = ms => new Date(ms).toLocaleTimeString('en-GB');
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 90 ? s + ' s' : s < 5400 ? Math.round(s / 60) + ' min' : s < 129600 ? Math.round(s / 3600) + ' h' : Math.round(s / 86400) + ' days';
}
function some(rows) {
  const all = number(rows.all);
  if (rows.found === rows.all) return rows.rows.length < rows.all ? `${all}, the first ${rows.rows.length}: filter to see others` : all;
  return `${number(rows.found)} of ${all}` + (rows.rows.length < rows.found ? `, the first ${rows.rows.length}` : '');
}
// rows shows rows, and leaves alone those that have not changed, so that neither focus nor scrolling is lost.
function rows(body, list, key, make) {
  const old = new Map([...body.children].map(r => [r.dataset.key, r]));
  let at = 0;
  for (const one of list) {
    const id = key(one) + '\n' + JSON.stringify(one);
    let row = old.get(id);
    if (row) old.delete(id); else { row = make(one); row.dataset.key = id; }
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
    at++;
  }
  while (body.children.length > at) body.lastChild.remove();
}

const marks = {NACKED: ['bad', '✗'], STALE: ['warn', '…'], SYNCED: ['good', '✓']};
function proxyRow(p) {
  const [kind, mark] = marks[p.state] || ['warn', '?'];
  return el('tr', {}, el('td', {class: kind}, `${mark} ${p.state}`),
    el('td', {}, p.name, p.trouble ? el('ul', {}, ...p.trouble.map(t => el('li', {}, t))) : undefined),
    el('td', {}, p.role), el('td', {}, p.version.replace('envoy ', '') || '–'), el('td', {}, p.who || 'none'), el('td', {}, clock(p.since)));
}
function serviceRow(s) {
  const [kind, mark] = s.outside && s.healthy === s.endpoints ? ['', '↗'] : s.healthy === 0 ? ['bad', '✗'] : s.healthy < s.endpoints ? ['warn', '!'] : ['good', '✓'];
  const button = el('button', {class: 'host', type: 'button'}, s.host);
  button.addEventListener('click', () => { host = s.host; load(); });
  return el('tr', {}, el('td', {class: kind}, `${mark} ${s.healthy} of ${s.endpoints}`), el('td', {}, button), el('td', {}, s.namespace), el('td', {}, s.registry));
}
function changeRow(c) {
  const more = c.count > (c.objects || []).length ? `, and ${number(c.count - (c.objects || []).length)} more` : '';
  return el('tr', {}, el('td', {}, clock(c.at)), el('td', {}, ((c.objects || []).join(', ') || 'start') + more), el('td', {}, number(c.sent)),
    el('td', {class: c.waiting ? 'warn' : undefined}, c.waiting ? `${number(c.proxies - c.waiting)} of ${number(c.proxies)}` : `all ${number(c.proxies)}`), el('td', {}, number(c.ms) + ' ms'));
}
function alarm(d) {
  const n = d.wrong.all, bad = n > 0;
  $('alarm').className = bad ? 'bad' : '';
  $('alarm-line').textContent = bad ? `✗ ${count(n, 'thing is', 'things are')} wrong: ${d.wrong.rows[0].text}` : '✓ Nothing is wrong';
  const more = n - d.wrong.rows.length;
  $('unlisted').textContent = more > 0 ? `and ${number(more)} more: /debug/proxies and /debug/notes have all` : '';
  rows($('wrongs'), d.wrong.rows, w => w.kind, w => el('li', {}, el('strong', {}, w.kind), ' ', w.text));
}

const clip = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
function box(x, y, width, lines, kind) {
  return svg('g', {}, svg('title', {}, lines.filter(l => l).join('\n')), svg('rect', {x, y, width, height: 40, rx: 6, class: kind}),
    svg('text', {x: x + 10, y: y + 17}, clip(lines[0], width > 390 ? 56 : 38)), svg('text', {x: x + 10, y: y + 33, class: 'soft'}, clip(lines[1] || '', width > 390 ? 60 : 42)));
}
function graph(g) {
  $('focus').textContent = g.host || '…';
  $('policies').textContent = g.policies.length ? 'Its proxies also ask: ' + g.policies.join(', ') : '';
  const key = JSON.stringify(g);
  if (!g.host || $('graph').dataset.key === key) return;
  $('graph').dataset.key = key;
  const left = g.callers.map(c => [`${c.namespace} ${c.sees ? '✓' : '✗ does not see it'}`, count(c.proxies, 'proxy', 'proxies') + (c.sidecar ? `, Sidecar ${c.sidecar}` : ''), c.sees]);
  if (g.more) left.push([count(g.more, 'group') + ' more', '', true]);
  if (!left.length) left.push(['nobody', 'no sidecar is connected', false]);
  const step = 54, height = Math.max(left.length, g.ways.length, 1) * step + 8, mid = height / 2;
  const y = (i, n) => mid + (i - (n - 1) / 2) * step;
  const parts = [];
  left.forEach(([name, text, sees], i) => {
    const at = y(i, left.length);
    parts.push(svg('path', {d: `M 284 ${at} C 325 ${at} 325 ${mid} 366 ${mid}`, class: sees ? undefined : 'no'}), box(4, at - 20, 280, [name, text]));
  });
  g.ways.forEach((w, i) => {
    const at = y(i, g.ways.length), percent = Math.round(w.percent * 10) / 10 + ' %';
    parts.push(svg('path', {d: `M 656 ${mid} C 710 ${mid} 710 ${at} 800 ${at}`, 'stroke-width': 1 + w.percent / 25}), svg('text', {x: 748, y: at - 8, class: 'weight'}, percent),
      box(800, at - 20, 400, [w.to, (w.gateway ? 'through a gateway; ' : '') + (w.match || 'every request') + (w.by ? ` · ${w.by}` : ''), w.at || '']));
  });
  parts.push(box(366, mid - 20, 290, [g.host, count(g.ways.length, 'way')], 'focus'));
  const said = `${left.map(l => l[0]).join(', ')}; ` + g.ways.map(w => `${Math.round(w.percent)} % of ${w.match || 'every request'} to ${w.to}`).join('; ');
  $('graph').replaceChildren(svg('svg', {width: 1206, height, viewBox: `0 0 1206 ${height}`, role: 'img', 'aria-label': said}, ...parts));
}
function chart(changes) {
  const list = [...changes].reverse(), most = Math.max(...list.map(c => c.ms), 1), width = 12;
  const bars = list.map((c, i) => svg('rect', {class: 'bar', x: i * (width + 3), y: 50 - Math.max(2, 48 * c.ms / most), width, height: Math.max(2, 48 * c.ms / most)},
    svg('title', {}, `${clock(c.at)}: ${c.ms} ms`)));
  $('chart').replaceChildren(svg('svg', {width: 32 * (width + 3) + 90, height: 54, role: 'img', 'aria-label': `${count(list.length, 'push', 'pushes')}, the longest ${most} ms`},
    ...bars, svg('text', {x: 32 * (width + 3) + 4, y: 14, class: 'soft'}, `${number(most)} ms`)));
}

function show(d) {
  alarm(d);
  $('n-proxies').textContent = some(d.proxies);
  $('n-services').textContent = some(d.services);
  rows($('proxies'), d.proxies.rows, p => p.name + p.since, proxyRow);
  rows($('services'), d.services.rows, s => s.host + s.namespace, serviceRow);
  rows($('registries'), d.registries, r => r.name, r => el('li', {}, `${r.name}: ${count(r.services, 'service')}, ${number(r.healthy)} of ${count(r.endpoints, 'endpoint')} healthy`));
  rows($('changes'), d.changes, c => c.at, changeRow);
  chart(d.changes);
  graph(d.graph);
  document.body.dataset.shown = d.at;
  if (!performance.getEntriesByName('shown').length) performance.mark('shown');
}
// load asks for what is shown; a change meanwhile asks once more.
async function load() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch('/page/data?' + new URLSearchParams({q: filter, host}), {signal: AbortSignal.timeout(silence)});
    if (!answer.ok) throw new Error(await answer.text());
    const data = await answer.json();
    show(data);
    faults = data.faults;
    if (events.readyState === EventSource.OPEN) live(true);
  } catch (e) {
    faults = ''; // no list has this digest: the next beat asks again
    live(false, e.message);
  }
  asking = false;
  if (again) { again = false; load(); }
}
function live(good, why) {
  const text = good ? '● live' : `○ not live: ${why || 'discovery does not answer'}`;
  if ($('live').textContent !== text) $('live').textContent = text;
}

let typed;
$('filter').addEventListener('input', () => {
  clearTimeout(typed);
  typed = setTimeout(() => { filter = $('filter').value; host = ''; load(); }, 120);
});
$('find').addEventListener('submit', e => e.preventDefault());
document.addEventListener('keydown', e => {
  if (e.key === '/' && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { e.preventDefault(); $('filter').focus(); }
});
$('explain').addEventListener('submit', async e => {
  e.preventDefault();
  const asked = new URLSearchParams([...new FormData(e.target)].filter(([, value]) => value));
  asked.set('output', 'text');
  $('road').textContent = '…';
  try {
    const answer = await fetch('/debug/explain?' + asked);
    $('road').textContent = await answer.text();
  } catch (fault) {
    $('road').textContent = 'Discovery does not answer: ' + fault.message;
  }
});
// listen hears of changes. A browser does not try again what was answered by an error, and a connection may die without an end: so it begins anew after a silence.
const silence = 8000; // milliseconds; a beat comes each two seconds
let events, watch;
function heard() {
  clearTimeout(watch);
  watch = setTimeout(() => { live(false, 'nothing is heard of discovery'); listen(); }, silence);
}
function listen() {
  if (events) events.close();
  events = new EventSource('/page/events');
  events.onmessage = () => { heard(); load(); };
  events.addEventListener('beat', e => { heard(); if (e.data !== faults) load(); }); // faults change without a message
  events.onerror = () => live(false);
  heard();
}
listen();
load();
