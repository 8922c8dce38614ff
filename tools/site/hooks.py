"""What the site has beyond the pages of docs/: the project's files, and a page for each module.

`docs/api.md` lists the public names, and the tests compare it with the modules; here each of its
sections becomes a page with the docstrings. Links to files of the repository lead to its pages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PROJECT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "SPEC.md": "spec.md",
    "README.md": "index.md",
}
FOLDERS = {"proofs": ("Privacy", "Proofs")}
"""Where the pages of a folder go in the navigation: a tab, and a section in it."""

_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_MODULE = re.compile(r"^## `(fedsel[.a-z]*)`\n(.*?)(?=^## |\Z)", re.M | re.S)
_ITEM = re.compile(r"^- `(\w+)`(?=: )", re.M)
_NAMED = re.compile(r"^(?:Names|Also here): .*$", re.M)
_NUMBER = re.compile(r"<td>((?:<strong>)?[^<a-zA-Z]{0,14}\d[^<a-zA-Z]{0,14}(?:</strong>)?)</td>")
_PICTURE = re.compile(r'<p><img [^>]*src="(?:\.\./)*images/([\w-]+\.svg)"[^>]*></p>')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add to the navigation what it does not list: pages of folders, of modules, and new ones."""
    nav: list[Any] = config.nav or []
    listed = set(re.findall(r"[\w./-]+\.md", str(nav)))
    docs = Path(config.docs_dir)
    for path in sorted(docs.rglob("*.md"), key=lambda path: (path.name != "index.md", path)):
        page = path.relative_to(docs).as_posix()
        if page not in listed:
            tab, section = FOLDERS.get(page.split("/")[0], ("Guides", None))
            _place(nav, tab, section, page)
    for module in _modules(docs):
        _place(nav, "API", None, {module: f"api/{module}.md"})
    return config


def _place(nav: list[Any], tab: str, section: str | None, entry: object) -> None:
    entries = next(item[tab] for item in nav if tab in item)
    if section is not None:
        found = next((item for item in entries if isinstance(item, dict) and section in item), None)
        if found is None:
            found = {section: []}
            entries.append(found)
        entries = found[section]
    entries.append(entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's own files and a page for each public module."""
    for source, page in PROJECT.items():
        if files.get_file_from_path(page) is None:
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=_from_root(text, config)))
    docs = Path(config.docs_dir)
    homes = _homes(docs)
    for module, section in _modules(docs).items():
        page = _module_page(module, section, homes)
        files.append(File.generated(config, f"api/{module}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Lead links to files of the repository, and names of the API, to where they are shown."""
    if page.file.generated_by:
        return markdown
    markdown = _LINK.sub(lambda found: _shown(found, page.file.src_uri, config), markdown)
    if page.file.src_uri == "api.md":
        homes = _homes(Path(config.docs_dir))
        return _MODULE.sub(lambda found: _linked(found[1], found[0], homes), markdown)
    return markdown


def on_page_content(html: str, config: MkDocsConfig, **_: Any) -> str:
    """Draw pictures in the colours of the page, light or dark, and keep numbers on one line."""
    html = _NUMBER.sub(r'<td class="number">\1</td>', html)
    return _PICTURE.sub(lambda found: _inlined(found[1], config), html)


def _inlined(source: str, config: MkDocsConfig) -> str:
    """The picture itself, and its narrow twin where it has one: the style sheet chooses."""
    path = Path(config.docs_dir, "images", source)
    narrow = path.with_stem(f"{path.stem}-narrow")
    if not narrow.exists():
        return f"<div>{path.read_text(encoding='utf-8')}</div>"
    return (
        f'<div class="wide">{path.read_text(encoding="utf-8")}</div>'
        f'<div class="narrow">{narrow.read_text(encoding="utf-8")}</div>'
    )


def _modules(docs: Path) -> dict[str, str]:
    return dict(_MODULE.findall((docs / "api.md").read_text(encoding="utf-8")))


@cache
def _homes(docs: Path) -> dict[str, str]:
    """The public module on whose page each listed name is shown: the one nearest to its source."""
    package = griffe.load("fedsel", search_paths=[ROOT / "src"])
    listed = [f"{m}.{name}" for m, text in _modules(docs).items() for name in _names(text)]
    source = {path: _source(package, path) for path in listed}
    homes = {}
    for path in listed:
        same = [other for other in listed if source[other] == source[path]]
        homes[path] = max(same, key=lambda other: _shared(other, source[path]))
    return homes


def _source(package: griffe.Object | griffe.Alias, path: str) -> str:
    return package[path.removeprefix("fedsel.")].canonical_path


def _shared(path: str, source: str) -> tuple[int, int]:
    module = path.rpartition(".")[0]
    return (len(module) if source.startswith(module + ".") else 0, len(module))


def _module_page(module: str, section: str, homes: dict[str, str]) -> str:
    text = re.split(r"\n(?:- `|Names: )", section, maxsplit=1)[0].strip()
    names = _names(section)
    here = [name for name in names if homes[f"{module}.{name}"] == f"{module}.{name}"]
    parts = [f"# `{module}`", text]
    elsewhere = [_reference(homes[f"{module}.{n}"]) for n in names if n not in here]
    if elsewhere:
        parts.append("Also here, and shown elsewhere: " + ", ".join(elsewhere) + ".")
    parts += [f"::: {module}.{name}" for name in here]
    return "\n\n".join(parts) + "\n"


def _names(section: str) -> list[str]:
    """The names that a section of the list describes, and those that it only names."""
    also = "".join(_NAMED.findall(section))
    return sorted(_ITEM.findall(section) + re.findall(r"`(\w+)`", also), key=str.lower)


def _reference(path: str, folder: str = "") -> str:
    module, _, name = path.rpartition(".")
    return f"[`{name}`]({folder}{module}.md#{path})"


def _linked(module: str, section: str, homes: dict[str, str]) -> str:
    def link(found: re.Match[str]) -> str:
        return _reference(homes[f"{module}.{found[1]}"], "api/")

    section = _ITEM.sub(lambda found: f"- {link(found)}", section)
    return _NAMED.sub(lambda found: re.sub(r"`(\w+)`", link, found[0]), section)


def _shown(found: re.Match[str], page: str, config: MkDocsConfig) -> str:
    """A link of a page in docs/, with what lies outside of it on its page or in the repository."""
    target, anchor = found["target"], found["anchor"] or ""
    path = (Path(config.docs_dir) / page).parent.joinpath(target).resolve()
    if path.is_relative_to(config.docs_dir) or not path.is_relative_to(ROOT):
        return found[0]
    inside = PROJECT.get(path.relative_to(ROOT).as_posix())
    if inside:
        return "../" * (len(PurePosixPath(page).parts) - 1) + inside + anchor
    kind = "tree" if path.is_dir() else "blob"
    return f"{config.extra['repository']}/{kind}/main/{path.relative_to(ROOT).as_posix()}{anchor}"


def _from_root(text: str, config: MkDocsConfig) -> str:
    """A file of the root with links that hold on the site."""

    def link(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        if target in PROJECT:
            return PROJECT[target] + anchor
        if target.startswith("docs/"):
            return target.removeprefix("docs/") + anchor
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{target}{anchor}"

    return _LINK.sub(link, text)
