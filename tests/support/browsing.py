"""A page in a real browser: opened, checked and used as a person does."""

from pathlib import Path
from typing import Any

import pytest


def opened(browser: Any, page: Path | str, theme: str = "light", width: int = 1120) -> Any:
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        browser.get_log(log)  # empties it
    browser.get(page if isinstance(page, str) else page.as_uri())
    return browser


def violations(browser: Any) -> list[str]:
    """What the accessibility checker axe finds."""
    axe = pytest.importorskip("axe_core_python.selenium", reason="needs the package axe-core-python").Axe()
    found = axe.run(browser)["violations"]
    return [f"{entry['id']}: {node['html'][:120]}" for entry in found for node in entry["nodes"]]


def visible(browser: Any) -> list[int]:
    script = "return [...document.querySelectorAll('.tile')].map((t, i) => t.hidden ? -1 : i).filter(i => i >= 0)"
    return list(browser.execute_script(script))


def choose(browser: Any, **values: str | bool) -> None:
    """Sets filters as a person does: a value and an input event."""
    script = (
        "for (const [name, value] of Object.entries(arguments[0])) { const field = document.getElementById('filters')"
        ".elements[name]; if (typeof value === 'boolean') field.checked = value; else field.value = value;"
        "field.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    browser.execute_script(script, values)
