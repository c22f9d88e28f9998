"""Build the documentation site from the Markdown files of the repository.

    python docs/site.py                 into build/site
    python docs/site.py FOLDER          somewhere else
    python docs/site.py --pages FOLDER  only write the pages, for another program to build

The pages are the README, every file that `docs/README.md` names, and the files these link to. `docs/README.md` is also the
navigation: each heading is a section, each link in its lists an entry. This program rewrites what only a repository has (links
to files outside `docs`, fences such as `python run`), Zensical makes HTML of it, and a broken link fails the build. Next to the
HTML stand the pages as Markdown, `llms.txt`, which lists them, and `llms-full.txt`, which has all of them in one file.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import infold

__all__ = ["Page", "Section", "build", "main", "make_html", "navigation", "pages", "render", "write_pages"]

PROJECT = Path(__file__).parents[1]
CONFIGURATION = PROJECT / "mkdocs.yml"
INDEX = PROJECT / "docs" / "README.md"
HOME = PROJECT / "README.md"
STYLE = PROJECT / "docs" / "site.css"
MARK = PROJECT / "src" / "infold" / "gateway" / "page" / "static" / "mark.svg"

FENCED = re.compile(r"^```[^\n`]*\n.*?^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+) \w+$|^```output$", re.MULTILINE)
LINK = re.compile(r"(?P<text>!?\[(?:[^\]\[]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)\)")
PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\">\s*"
    r"<img alt=\"(?P<alt>[^\"]*)\" src=\"(?P<light>[^\"]+)\">\s*</picture>"
)
SOURCE = re.compile(r"(?P<attribute>src|srcset)=\"(?P<target>[^\"]+)\"")
FOREIGN = re.compile(r"^[a-z]+:|^#")
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".sh": "sh", ".json": "json"}


@dataclass(frozen=True)
class Page:
    """A file of the repository, and where it stands on the site."""

    file: Path
    place: PurePosixPath

    @property
    def is_markdown(self) -> bool:
        """Whether it is a page as it is; other text becomes a page with its lines in a fence."""
        return self.file.suffix == ".md"


@dataclass(frozen=True)
class Section:
    """A heading of the index, and its links in order: title, file, and what the index says of it."""

    title: str
    entries: tuple[tuple[str, Path, str], ...]


def main(arguments: list[str] | None = None) -> int:
    """Build the site; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="build the documentation site")
    parser.add_argument("folder", nargs="?", type=Path, default=PROJECT / "build" / "site")
    parser.add_argument("--pages", action="store_true", help="only write the pages and their configuration")
    options = parser.parse_args(arguments)
    if options.folder.exists() and any(options.folder.iterdir()) and not (options.folder / "llms.txt").exists():
        parser.error(f"{options.folder} has files that are not a built site; name another folder")
    if options.pages:
        write_pages(options.folder)
        return 0
    return build(options.folder)


def build(folder: Path) -> int:
    """Write the pages somewhere for the while, and have HTML made of them; not 0 if a link is broken."""
    with TemporaryDirectory() as place:
        staged = Path(place)
        write_pages(staged)
        status = make_html(staged)
        if status == 0:
            shutil.copytree(staged / "docs", staged / "site", dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(staged / "site", folder)
    return status


def make_html(staged: Path) -> int:
    """Run Zensical on written pages; the answer is its exit status."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(staged / "mkdocs.yml")]
    return subprocess.run(command, cwd=staged, check=False).returncode


def write_pages(folder: Path) -> None:
    """Write every page, its pictures, `llms.txt`, `llms-full.txt` and the configuration with the navigation."""
    found = pages()
    docs = folder / "docs"
    for page in found.values():
        target = docs / page.place
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".md":
            shutil.copyfile(page.file, target)
            continue
        target.write_text(render(page, found), "utf-8")
    for file in (MARK, STYLE):
        shutil.copyfile(file, docs / file.name)
    sections = navigation()
    (docs / "llms.txt").write_text(_llms(sections, found), "utf-8")
    (docs / "llms-full.txt").write_text(_llms_full(sections, found), "utf-8")
    nav = [{one.title: [{title: str(found[file].place)} for title, file, _ in one.entries]} for one in sections]
    settings = CONFIGURATION.read_text("utf-8")
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav: {json.dumps(nav, indent=2)}\n", "utf-8")


def navigation() -> tuple[Section, ...]:
    """The sections of `docs/README.md`; the README of the project opens the first."""
    sections: list[Section] = []
    for part in re.split(r"^## ", INDEX.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        items = [" ".join(item.split()) for item in re.split(r"^- ", body, flags=re.MULTILINE)[1:]]
        sections.append(Section(title.strip(), tuple(entry for item in items for entry in _entries(item))))
    return tuple(sections)


def _entries(item: str) -> Iterator[tuple[str, Path, str]]:
    """The links of a list item; what follows a link alone in its item, after a colon, describes it."""
    links = [link for link in LINK.finditer(item) if not FOREIGN.match(link["target"])]
    for link in links:
        about = item[link.end() :].removeprefix(":").strip() if len(links) == 1 else ""
        yield link["text"][1:-1].replace("`", ""), (INDEX.parent / link["target"]).resolve(), about


def pages() -> dict[Path, Page]:
    """Every file that can be reached from the README and the index, by its path."""
    found: dict[Path, Page] = {}
    waiting = [HOME, INDEX]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = Page(file, _place(file))
            if file.suffix == ".md":
                waiting += [target for link in _links(file.read_text("utf-8")) if (target := _target(link, file))]
    return dict(sorted(found.items()))


def _place(file: Path) -> PurePosixPath:
    path = PurePosixPath(file.relative_to(PROJECT).as_posix())
    if file in (HOME, INDEX):
        return PurePosixPath("index.md" if file == HOME else "contents.md")
    if path.suffix not in (".md", ".png", ".svg"):
        return PurePosixPath("source", f"{path}.md")
    if len(path.parts) == 1:
        return PurePosixPath("project", path.name.lower())
    inner = path.relative_to("docs") if path.parts[0] == "docs" else path
    return inner.with_name("index.md") if inner.name == "README.md" else inner


def _links(text: str) -> Iterator[str]:
    prose = FENCED.sub("", text)
    for pattern in (LINK, SOURCE):
        yield from (link["target"] for link in pattern.finditer(prose))


def _target(link: str, file: Path) -> Path | None:
    """The file that a link leads to; a folder stands for its README. None if it leads elsewhere or nowhere."""
    name = link.partition("#")[0]
    if FOREIGN.match(link) or not name:
        return None
    target = (file.parent / name).resolve()
    target = target / "README.md" if target.is_dir() else target
    return target if target.is_file() else None


# One page.


def render(page: Page, found: dict[Path, Page]) -> str:
    """A page as the site has it: links lead to pages of the site, fences name a language."""
    text = page.file.read_text("utf-8")
    if page.file.suffix == ".ipynb":
        return _notebook(json.loads(text))
    if not page.is_markdown:
        name = page.file.relative_to(PROJECT).as_posix()
        language = LANGUAGES.get(page.file.suffix, "text")
        return f"---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n# `{name}`\n\n`````{language}\n{text}`````\n"
    pieces, end = [], 0
    for fenced in FENCED.finditer(text):
        pieces += [_moved(text[end : fenced.start()], page, found), FENCE.sub(_fence, fenced[0])]
        end = fenced.end()
    pieces.append(_moved(text[end:], page, found))
    return "".join(pieces)


def _notebook(notebook: dict[str, Any]) -> str:
    """A notebook as a page: its text, its code, and what it printed and drew when it was last run."""
    shown = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        shown.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            printed = "".join(output.get("text", data.get("text/plain", "")))
            if "image/png" in data:
                shown.append(
                    f"![what the code above draws](data:image/png;base64,{''.join(data['image/png']).strip()})"
                )
            elif printed:
                shown.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join([*shown, ""])


def _fence(fence: re.Match[str]) -> str:
    return f"```{fence[1] or 'text'}"


def _moved(prose: str, page: Page, found: dict[Path, Page]) -> str:
    """Prose with its links as they are on the site; a link to a folder without a README becomes plain text.

    A picture for light and dark becomes two images of which the reader's choice of colours shows one.
    """

    def link(match: re.Match[str]) -> str:
        name = match["target"].partition("#")[0]
        if name and (page.file.parent / name).is_dir() and _target(name, page.file) is None:
            return match["text"][1:-1]
        return f"{match['text']}({_new_target(match['target'], page, found)})"

    def source(match: re.Match[str]) -> str:
        return f'{match["attribute"]}="{_new_target(match["target"], page, found)}"'

    pictures = PICTURE.sub(r"![\g<alt>](\g<light>#only-light)\n![\g<alt>](\g<dark>#only-dark)", prose)
    return SOURCE.sub(source, LINK.sub(link, pictures))


def _new_target(link: str, page: Page, found: dict[Path, Page]) -> str:
    target = _target(link, page.file)
    if target is None:
        return link
    moved = PurePosixPath(relpath(found[target].place, page.place.parent)).as_posix()
    _, mark, anchor = link.partition("#")
    return f"{moved}{mark}{anchor}"


# For programs that read.


def _llms(sections: tuple[Section, ...], found: dict[Path, Page]) -> str:
    """The list of pages, as llmstxt.org describes it."""
    lines = [
        "# infold",
        "",
        f"> {(infold.__doc__ or '').strip()}",
        "",
        "All pages in one file: [llms-full.txt](llms-full.txt)",
    ]
    for section in sections:
        lines += ["", f"## {section.title}", ""]
        lines += [
            f"- [{title}]({found[file].place}){f': {_plain(about)}' if about else ''}"
            for title, file, about in section.entries
        ]
    return "\n".join([*lines, ""])


def _llms_full(sections: tuple[Section, ...], found: dict[Path, Page]) -> str:
    files = [HOME, *(file for section in sections for _, file, _ in section.entries if file.suffix == ".md")]
    shown = [found[file] for file in dict.fromkeys(files)]
    return "\n\n".join(f"<!-- {page.place} -->\n\n{render(page, found).strip()}" for page in shown) + "\n"


def _plain(text: str) -> str:
    return LINK.sub(lambda link: link["text"][1:-1], text)


if __name__ == "__main__":
    sys.exit(main())
