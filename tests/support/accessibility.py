"""axe-core, an accessibility checker, in a page of a browser."""

import functools
import subprocess
import tarfile
import tempfile
from pathlib import Path

AXE = "axe-core@4"
NOT_OURS = ".plot-img"  # JupyterLab's picture of a plotly figure, without an alternative text


@functools.cache
def _script():
    """The checker, from npm."""
    with tempfile.TemporaryDirectory() as directory:
        options = {"check": True, "capture_output": True, "text": True, "timeout": 120}
        packed = subprocess.run(["npm", "pack", "--silent", AXE], cwd=directory, **options)  # noqa: PLW1510
        with tarfile.open(Path(directory, packed.stdout.split()[-1])) as archive:
            return archive.extractfile("package/axe.min.js").read().decode()


def violations(page, within="html"):
    """What is violated in some elements of a page: by rule, the impact and some elements."""
    page.evaluate(_script())
    scope = {"include": [within], "exclude": [NOT_OURS]}
    result = page.evaluate("(scope) => axe.run(scope, { resultTypes: ['violations'] })", scope)
    return {
        one["id"]: (one["impact"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in result["violations"]
    }
