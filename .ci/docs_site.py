"""What the site has beside docs/: the README as its first page, and the API's files as its gRPC reference.

Links out of docs/ lead to files of the repository, which a site does not have: their text stays, the link goes.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "proto" / "timerd" / "v1"
_OUTWARD = re.compile(r"\[([^\]]+)\]\((?:\.\./\.\./)[^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "index.md", content=first_page((ROOT / "README.md").read_text("utf-8"))))
    files.append(File.generated(config, "use/grpc.md", content=grpc_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return _OUTWARD.sub(r"\1", markdown)


def first_page(readme: str) -> str:
    """Its links to docs/ are relative to docs/ here; the others lead out of the site."""
    return _LINK.sub(lambda link: _within(link[1], link[2]), readme)


def _within(text: str, target: str) -> str:
    return f"[{text}]({target.removeprefix('docs/')})" if target.startswith("docs/") else text


def grpc_page() -> str:
    """Each file of the API as it stands, with its comments."""
    files = sorted(PROTOS.glob("*.proto"))
    parts = [f"## {path.name}\n\n```protobuf\n{path.read_text('utf-8').strip()}\n```" for path in files]
    lead = "These files are the whole API, for all languages. A server tells them by reflection as well."
    return "\n\n".join(["# gRPC reference", lead, *parts]) + "\n"
