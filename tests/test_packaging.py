"""Releases: wheels and source archives that install and work, locks, licences, completion."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.environments import empty_environment, run
from tests.lists import sample

from hushcall.formats.blocklists import WRITERS
from hushcall.version import __version__

ROOT = Path(__file__).parent.parent
PROJECTS = {
    folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (".", "lab", "home")
}
PROJECT, LAB, HOME = PROJECTS.values()
LOCKS = {name: (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in ("lab", "home", "dev")}
REASONS = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
LICENCES = (ROOT / "locks" / "README.md").read_text(encoding="utf-8")
MAX_WHEEL_BYTES = 700_000
"""645 kB without the lab, 965 kB with it."""
HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]


def test_everything_that_names_the_release_names_this_version() -> None:
    citation, changes = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    assert f"\nversion: {__version__}\n" in citation
    assert f"The current version is {__version__}." in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[:2] == ["Unreleased", __version__]
    assert f"\nlicense: {PROJECT['license']}\n" in citation


def wanted(extra: str | None) -> list[Requirement]:
    """What an extra needs, its own and those of the extras that it names; None is the base."""
    if extra == "lab":
        return [*map(Requirement, LAB["dependencies"][1:]), *wanted("server")]
    if extra == "home":
        return [*map(Requirement, HOME["dependencies"][1:])]
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [Requirement(line) for line in lines]
    inner = [more for one in found if one.name == PROJECT["name"] for name in one.extras for more in wanted(name)]
    return [one for one in found if one.name != PROJECT["name"]] + inner


def pins(lock: str) -> dict[str, list[str]]:
    """Package → versions; a package may have another one on another platform or Python."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ ;]+)", lock, re.MULTILINE):
        found.setdefault(name, []).append(version)
    return found


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_names_all_that_an_extra_needs_in_versions_that_it_allows(extra: str) -> None:
    found = pins(LOCKS[extra])
    beside = wanted("home") if extra == "dev" else []
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for one in (*wanted(extra), *wanted(None), *beside, *map(Requirement, build)):
        versions = found.get(canonicalize_name(one.name), [])
        assert versions, f"{one.name} is not in locks/{extra}.txt: make lock"
        assert all(version in one.specifier for version in versions), f"{one}: make lock"


@pytest.mark.parametrize("extra", LOCKS)
def test_everything_in_a_lock_has_its_hash_and_no_lock_names_a_host(extra: str) -> None:
    entries = re.split(r"\n(?=\S)", LOCKS[extra].strip())
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in LOCKS[extra]
    assert "index" not in LOCKS[extra]


def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "licences.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_has_its_licence_on_a_page_and_what_is_installed_says_the_same() -> None:
    script = licences()
    known = script.rows(LICENCES)
    assert sorted(known) == script.locked(LOCKS["dev"]), "python docs/licences.py"
    assert all(known.values())
    direct = {
        canonicalize_name(one.name)
        for extra in (None, "home", "server", "lab", "scale", "docs", "dev")
        for one in wanted(extra)
    }
    assert direct <= set(known)
    direct_by_group = script.groups(PROJECT, HOME["dependencies"], LAB["dependencies"])
    named = {name.partition("[")[0] for names in direct_by_group.values() for name in names}
    assert set(script.reasons(REASONS)) == named
    assert script.licence("pytest") == known["pytest"]
    assert script.licence("no-such-package") is None


def test_the_version_is_said_and_is_the_package_s() -> None:
    said = subprocess.run([*HUSHCALL, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"hushcall {__version__}\n"
    assert PROJECT["dynamic"] == ["version"]  # of src/hushcall/version.py
    assert LAB["version"] == HOME["version"] == __version__
    assert LAB["dependencies"][0] == f"hushcall[server]=={__version__}"
    assert HOME["dependencies"][0] == f"hushcall=={__version__}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_our_commands(shell: str) -> None:
    def asked(**variables: str) -> str:
        program = "import sys; sys.argv[0] = 'hushcall'; from hushcall.cli import main; main()"
        env = {**os.environ, **variables}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        return done.stdout

    assert "_HUSHCALL_COMPLETE" in asked(_HUSHCALL_COMPLETE=f"source_{shell}")
    typed = {"COMP_WORDS": "hushcall expo", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "hushcall expo"}
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}
    assert "export" in asked(_HUSHCALL_COMPLETE=f"complete_{shell}", **typed, **fish)


@dataclass(frozen=True)
class Built:
    """What ``make package`` makes of a distribution."""

    wheel: Path
    archive: Path

    def folders(self) -> set[str]:
        """Of the wheel, the folders and modules of its package."""
        names = [name.split("/") for name in zipfile.ZipFile(self.wheel).namelist() if ".dist-info/" not in name]
        return {"/".join(parts[:2]) for parts in names}


def build(folder: Path, source: Path) -> Built:
    folder.mkdir(exist_ok=True)
    run([sys.executable, "-m", "build", "--outdir", folder, source], folder)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, archive)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"), ROOT)


@pytest.fixture(scope="module")
def built_lab(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist-lab"), ROOT / "lab")


@pytest.fixture(scope="module")
def built_home(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist-home"), ROOT / "home")


@pytest.mark.slow
def test_a_release_holds_all_that_it_needs(built: Built) -> None:
    inside = set(zipfile.ZipFile(built.wheel).namelist())
    ours = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/hushcall").rglob("*.*") if path.is_file()
    }
    assert {name for name in ours if "__pycache__" not in name} <= inside
    with tarfile.open(built.archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"Makefile", "LICENSE", "locks/dev.txt", "deploy/Containerfile", "tests/test_packaging.py"} <= names
    assert {"lab/pyproject.toml", "lab/LICENSE", "lab/src/hushcall_lab/cli/demo.py"} <= names
    assert {"home/pyproject.toml", "home/LICENSE", "home/src/hushcall_home/locale/de.po"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("folder", PROJECTS)
def test_another_folder_and_another_day_give_the_same_bytes(folder: str, tmp_path: Path) -> None:
    """The second build is of the first one's source archive."""
    builds = [build(tmp_path / "dist", ROOT / folder)]
    with tarfile.open(builds[0].archive) as packed:
        packed.extractall(tmp_path / "elsewhere", filter="data")
    (source,) = (tmp_path / "elsewhere").iterdir()
    for path in source.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(path.stat().st_mode & 0o700)
    builds.append(build(tmp_path / "again", source))
    for kind in ("wheel", "archive"):
        first, second = (getattr(one, kind) for one in builds)
        assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())


@pytest.mark.slow
def test_the_wheel_has_the_six_layers_and_no_lab(built: Built) -> None:
    folders = ("protocol", "mechanisms", "decoding", "formats", "client", "server", "cli")
    modules = {f"hushcall/{path.name}" for path in (ROOT / "src/hushcall").iterdir() if path.is_file()}
    assert built.folders() == {f"hushcall/{name}" for name in folders} | modules
    assert built.wheel.stat().st_size < MAX_WHEEL_BYTES


@pytest.mark.slow
def test_the_lab_is_a_wheel_of_its_own(built_lab: Built) -> None:
    assert {name.split("/")[0] for name in built_lab.folders()} == {"hushcall_lab"}
    assert {"hushcall_lab/cli", "hushcall_lab/proofs", "hushcall_lab/rivals"} <= built_lab.folders()
    assert any(name.endswith("licenses/LICENSE") for name in zipfile.ZipFile(built_lab.wheel).namelist())


@pytest.mark.slow
def test_the_household_s_program_is_a_wheel_of_its_own_and_brings_its_command(
    built: Built, built_home: Built, tmp_path: Path
) -> None:
    assert {name.split("/")[0] for name in built_home.folders()} == {"hushcall_home"}
    assert {"hushcall_home/locale", "hushcall_home/templates"} <= built_home.folders()
    programs = empty_environment(tmp_path / "empty")
    run([programs / "pip", "install", "-q", "--no-compile", built.wheel], tmp_path)
    done = subprocess.run([programs / "hushcall", "home", "run"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("hushcall: hushcall home needs the package")) == (2, True)
    run([programs / "pip", "install", "-q", "--no-compile", built.wheel, built_home.wheel], tmp_path)
    assert "install" in run([programs / "hushcall", "home", "--help"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "archive"])
def test_both_install_into_an_empty_environment_and_work(kind: str, built: Built, tmp_path: Path) -> None:
    programs = empty_environment(tmp_path / "empty")
    run([programs / "pip", "install", "-q", "--no-compile", getattr(built, kind)], tmp_path)
    assert run([programs / "hushcall", "--version"], tmp_path) == f"hushcall {__version__}\n"
    assert "ingest" in run([programs / "hushcall", "phone", "--help"], tmp_path)
    (tmp_path / "list.jsonl").write_bytes(sample().to_bytes())
    exported = run([programs / "hushcall", "export", "--to", "plain", "--list", "list.jsonl"], tmp_path)
    assert exported.encode() == WRITERS["plain"].write(sample())
    plans = "from hushcall.protocol.numbers import plan_named; print(plan_named('FR').country_code)"
    assert run([programs / "python", "-c", plans], tmp_path) == "33\n"


@pytest.mark.slow
def test_the_lab_installs_beside_it_and_runs(built: Built, built_lab: Built, tmp_path: Path) -> None:
    programs = empty_environment(tmp_path / "empty")
    run([programs / "pip", "install", "-q", "--no-compile", f"{built.wheel}[server]", built_lab.wheel], tmp_path)
    assert "experiment" in run([programs / "hushcall-lab", "--help"], tmp_path)
    mechanisms = (
        "from hushcall.mechanisms.registry import MECHANISMS; print('subspace' in MECHANISMS, 'pem' in MECHANISMS)"
    )
    assert run([programs / "python", "-c", mechanisms], tmp_path) == "True True\n"
