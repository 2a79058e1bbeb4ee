"""An audit as one HTML file, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --open: #9a6700 }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --open: #d29922 } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line) }
.pass, .lossless { color: var(--good) } .fail, .not-lossless { color: var(--bad) } .undecided { color: var(--open) }
dt, .mark { font-weight: 600 } .mark { white-space: nowrap }
pre { white-space: pre-wrap; overflow-wrap: anywhere }
"""
MARKS: Mapping[str, str] = {"pass": "✓ pass", "fail": "✗ fail", "undecided": "? undecided"}


def html(document: Mapping[str, Any]) -> str:
    """The document of `check.document` as a page that needs nothing else."""
    word = document["verdict"]
    rows = "".join(
        f'<tr><th scope="row">{escape(check["name"])}</th>'
        f'<td class="mark {check["outcome"]}">{MARKS[check["outcome"]]}</td><td>{escape(check["says"])}'
        f"{_divergences(check['divergences'])}{_figures(check['figures'])}</td></tr>"
        for check in document["checks"]
    )
    first = document["first_divergence"]
    told = f"<h2>The first divergence</h2><p>{escape(first['explained'])}</p>" if first else ""
    meta = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in document["meta"].items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>paceline audit: {word}</title><style>{STYLE}</style><h1>Audit: "
        f'<span class="{word.replace(" ", "-")}">{word}</span></h1>{told}<h2>Checks</h2>'
        f"<table><thead><tr><th>check</th><th>outcome</th><th>what was found</th></tr></thead><tbody>{rows}</tbody>"
        f"</table><h2>What was audited</h2><dl>{meta}</dl></html>\n"
    )


def _divergences(found: Any) -> str:
    if not found:
        return ""
    items = "".join(f"<li>{escape(each['kind'])}: {escape(each['explained'])}</li>" for each in found[:20])
    return f"<details><summary>{len(found)} divergences</summary><ul>{items}</ul></details>"


def _figures(figures: Mapping[str, Any]) -> str:
    lines = "\n".join(f"{key}: {value}" for key, value in figures.items())
    return f"<details><summary>figures</summary><pre>{escape(lines)}</pre></details>"


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for a terminal."""
    for check in document["checks"]:
        yield f"{MARKS[check['outcome']]:<13} {check['name']}: {check['says']}"
    if document["first_divergence"]:
        yield f"first divergence: {document['first_divergence']['explained']}"
    yield f"verdict: {document['verdict']}"
