"""These tests need programs that are not Python packages: only ``make interop`` names this folder and so runs them."""

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if any("interop/programs" in argument for argument in config.args) else True
