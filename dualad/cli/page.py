"""Self-contained HTML pages, and how the report of a check looks and what its filters do: all of it is inline.

Nothing is loaded from anywhere; without scripts the page shows everything. Not for its content (``html.py``).
"""

from __future__ import annotations

from html import escape

__all__ = ["SCRIPT", "STYLE", "page"]


def page(title: str, body: str, style: str, script: str = "") -> str:
    """Return a page that needs no other file."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{style}</style></head><body>\n'
        f"{body}\n{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


STYLE = """
:root { color-scheme: light dark; --fg: #1d2330; --soft: #5d6779; --bg: #fff; --card: #f5f7fa; --line: #dfe3eb;
  --good: #14713a; --bad: #b3202a; --skip: #8a6100; --bar: #7fa7d9; --plus: #b2182b; --minus: #2166ac; --zero: #fff;
  --jax: #1f77b4; --differences: #2ca02c; --complex-step: #9467bd; --dot: #e07b00; --loop: #7f7f7f; --numpy: #0fa3b1; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e8f0; --soft: #9aa5b8; --bg: #14171d; --card: #1d222b;
  --line: #323946; --good: #5ac987; --bad: #ff8087; --skip: #e3b341; --bar: #3f6ea8; --plus: #ff8a80; --minus: #6cb2ff;
  --zero: #14171d; --jax: #5aa9e6; --differences: #5ccb5c; --complex-step: #b794e0; --dot: #ffa94d; --loop: #a8adb7;
  --numpy: #4fd0dd; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.2rem 1rem 4rem;
  color: var(--fg); background: var(--bg); }
h1 { font-size: 1.5rem; margin: 0 0 .6rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
code, pre, .mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .92em; }
pre { background: var(--card); padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .8rem; line-height: 1.35; border-radius: 6px; margin: .5rem 0; }
.summary { padding: .6rem 1rem; border-left: 5px solid var(--good); background: var(--card); border-radius: 0 6px 6px 0;
  margin: 0 0 .6rem; } .summary.bad { border-color: var(--bad); }
.soft { color: var(--soft); font-size: .86rem; } .ok { color: var(--good); } .skipped { color: var(--skip); }
.mismatch, .error, .unchecked { color: var(--bad); font-weight: 600; } .na { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; } td, th { padding: .25rem .6rem; text-align: left;
  vertical-align: top; } th { border-bottom: 2px solid var(--line); white-space: nowrap; }
tbody tr + tr td { border-top: 1px solid var(--line); }
.grid td, .grid th { text-align: center; padding: .2rem .45rem; } .grid td:first-child, .grid th:first-child {
  text-align: left; } .grid a { color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.grid a:hover { text-decoration: underline; }
.filters { position: sticky; top: 0; z-index: 2; background: var(--bg); border-bottom: 1px solid var(--line);
  padding: .5rem 0; display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin-top: 1rem; }
.filters input[type=search], .filters select { font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 6px; padding: .2rem .5rem; } .filters label { white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 8px; margin: .8rem 0; padding: 0 .9rem; }
details[open] { padding-bottom: .9rem; } summary { cursor: pointer; padding: .5rem 0; overflow-wrap: anywhere; }
.parts { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; } .parts > .rows { flex: 1 1 32rem;
  min-width: 0; } .parts figure { flex: 0 1 20rem; margin: 0; } figure svg { width: 100%; height: auto; display: block;
  border: 1px solid var(--line); } figcaption { font-size: .8rem; color: var(--soft); }
.time { white-space: nowrap; text-align: right; } .bar { display: block; height: .3rem; background: var(--bar);
  border-radius: 2px; margin-left: auto; }
.strip { display: grid; grid-template-columns: 6.5rem 1fr; font-size: .8rem; align-items: center; }
.track { position: relative; height: 1.45rem; border-bottom: 1px solid var(--line); }
.track i, .key i { width: .55rem; height: .55rem; border-radius: 50%; display: inline-block; }
.track i { position: absolute; top: .45rem; margin-left: -.27rem; opacity: .72; }
.track b { position: absolute; top: 0; bottom: 0; border-left: 1px dashed var(--line); }
.axis { position: relative; height: 1.3rem; color: var(--soft); } .axis span { position: absolute;
  transform: translateX(-50%); } .key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .82rem;
  margin: .3rem 0; } .key i { margin-right: .3rem; }
.plus { fill: var(--plus); } .minus { fill: var(--minus); } .nan { fill: var(--skip); }
.ground { fill: var(--zero); } pre.failures { max-height: 24rem; overflow-y: auto; }
[hidden] { display: none !important; }
@media (max-width: 640px) {
  .rows thead { display: none; } .rows tr { display: grid; grid-template-columns: 1fr auto auto; gap: 0 .8rem;
    padding: .35rem 0; } .rows tbody tr + tr { border-top: 1px solid var(--line); } .rows td { padding: 0; }
  .rows tbody tr + tr td { border-top: 0; } .rows td.said { grid-column: 1 / -1; grid-row: 2; }
  .filters { gap: .3rem .7rem; } .filters input[type=search] { width: 100%; }
  .strip { grid-template-columns: 5rem 1fr; } pre.failures { max-height: 16rem; }
  .axis span:nth-child(even) { display: none; } .parts figure { flex-basis: 100%; }
}
"""

SCRIPT = """
(() => {
  const form = document.querySelector(".filters");
  form.hidden = false;
  const show = () => {
    const words = form.text.value.toLowerCase(), quantity = form.quantity.value;
    const kinds = new Set([...form.querySelectorAll("[name=kind]:checked")].map(box => box.value));
    let seen = 0;
    for (const section of document.querySelectorAll("details.report")) {
      const named = section.dataset.name.toLowerCase().includes(words);
      let any = false;
      for (const row of section.querySelectorAll("tr[data-kind]")) {
        const on = kinds.has(row.dataset.kind) && (!quantity || row.dataset.quantity === quantity);
        row.hidden = !on;
        any ||= on;
      }
      section.hidden = !(named && any);
      seen += !section.hidden;
      const link = document.querySelector(`.grid tr[data-report="${section.id}"]`);
      if (link) link.hidden = section.hidden;
    }
    document.querySelector("#seen").textContent = `${seen} shown`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  const open = () => { const at = document.getElementById(location.hash.slice(1)); if (at) at.open = true; };
  addEventListener("hashchange", open);
  open();
  show();
})();
"""
