"""What the service hands out for the page at /join: its files, their headers, and nothing else."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fedsel.service import _pages as joining
from fedsel.service._pages import client_folder, join_files
from tests.clients.test_js import _run, node  # noqa: F401
from tests.service.support import running, task_of

pytestmark = pytest.mark.xdist_group("processes")

CLIENT = Path(__file__).parents[2] / "clients" / "js"
PAGE = Path(joining.__file__).with_name("joining") / "page"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(task_of(), tmp_path_factory.mktemp("store")) as client:
        yield client


def test_every_file_has_its_kind_its_tag_and_the_strict_policy(service):
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    for name in join_files():
        path = "/join" if name == "join.html" else f"/join/{name}"
        status, headers, body = service.ask("GET", path)
        assert (status, len(body) > 0) == (200, True), name
        assert headers.get_content_type() == kinds.get(Path(name).suffix, "text/html")
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        known = service.ask("GET", path, If_None_Match=headers["etag"])
        assert (known[0], known[2]) == (304, b"")


def test_the_page_has_no_inline_script_or_style():
    page = join_files()["join.html"].plain.decode()
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="join/join.js">']
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|https?://", page)
    assert not re.search(r"<!--\w+-->|\[\w+\]", page)  # all that Python fills in is there


def test_modules_are_those_of_the_client_that_a_browser_can_load(service):
    published = json.loads((CLIENT / "package.json").read_text())["files"]
    assert "src" in published
    assert client_folder() == CLIENT / "src"
    files = {name.removeprefix("client/") for name in join_files() if name.startswith("client/")}
    sources = {file.relative_to(CLIENT / "src").as_posix() for file in CLIENT.glob("src/**/*.js")}
    assert files == sources - {"node.js", "stores/file.js"}
    for name in join_files():
        if name.endswith(".js"):
            text = join_files()[name].plain.decode()
            code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
            imported = re.findall(r'(?:from|import\() ?"([^"]+)"', code)
            assert all(one.startswith(".") for one in imported), name


@pytest.mark.parametrize(
    "path",
    [
        "client/test/memory.js",
        "client/../../files.py",
        "..%2ffiles.py",
        "%2e%2e/__init__.py",
        "client/node.js",
        "client/stores/file.js",
        "client/package.json",
        "client",
        "",
        "join.js/",
        "/etc/passwd",
    ],
)
def test_nothing_else_can_be_had(service, path):
    assert service.ask("GET", f"/join/{path}")[0] == 404


@pytest.mark.slow
def test_types_and_style_of_its_modules_are_right(node, tmp_path):  # noqa: F811
    tools = CLIENT / "node_modules"
    if not tools.exists():
        pytest.skip("no TypeScript: npm install in clients/js (make javascript)")
    formatter = tools / "prettier" / "bin" / "prettier.cjs"
    modules = sorted(PAGE.glob("*.js"))
    done = _run([node, formatter, "--config", CLIENT / ".prettierrc", "--check", *modules])
    assert done.returncode == 0, done.stderr
    for file in modules:  # as the browser finds them: the client's modules below the page's
        shutil.copy(file, tmp_path)
    shutil.copytree(CLIENT / "src", tmp_path / "client")
    settings = json.loads((CLIENT / "tsconfig.json").read_text())
    settings["compilerOptions"]["typeRoots"] = [str(tools / "@types")]
    (tmp_path / "tsconfig.json").write_text(json.dumps({**settings, "include": ["*.js"]}))
    done = _run([node, tools / "typescript" / "bin" / "tsc", "--project", tmp_path])
    assert (done.stdout, done.returncode) == ("", 0)
