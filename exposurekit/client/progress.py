"""A progress bar for notebooks and terminals; silent everywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(unit: str, show: bool | None = None) -> Iterator[Callable[[int, int | None], None]]:  # noqa: FBT001
    """Yield a function that takes what is done and the total (None if the total is unknown).

    ``show`` of None shows the bar in a notebook or a terminal only.
    """
    if show is False or (show is None and not (sys.stderr.isatty() or _in_notebook())):
        yield lambda _done, _total: None
        return
    with (_notebook_bar if _in_notebook() else _terminal_bar)(f" {unit}") as bar:

        def update(done: int, total: int | None) -> None:
            if total is not None and bar.total != total:
                bar.reset(total)
            bar.update(done - bar.n)

        yield update


@contextmanager
def _terminal_bar(unit: str) -> Iterator[Any]:
    from tqdm import tqdm

    with tqdm(unit=unit, leave=False, dynamic_ncols=True) as bar:
        yield bar


@contextmanager
def _notebook_bar(unit: str) -> Iterator[Any]:
    """A bar whose output is emptied at its end: a saved one would be a widget without a model."""
    from IPython.display import display
    from tqdm.notebook import tqdm

    with tqdm(unit=unit, leave=False, display=False) as bar:
        output: Any = display(bar.container, display_id=True)  # type: ignore[no-untyped-call]
        try:
            yield bar
        finally:
            output.update({"text/html": "", "text/plain": ""}, raw=True)


def _in_notebook() -> bool:
    """Whether a kernel runs this code; an imported IPython alone does not mean that."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_ipython(), "kernel", None) is not None
