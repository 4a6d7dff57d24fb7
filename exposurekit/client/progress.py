"""A progress bar for long work, in a notebook and in a terminal; silent elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(unit: str, shown: bool | None = None) -> Iterator[Callable[[int, int | None], None]]:  # noqa: FBT001
    """A function to call with what is done and what there is in all (None: not known).

    Args:
        unit: What is counted.
        shown: True, False, or None: where somebody is looking.
    """
    if shown is False or (shown is None and not (sys.stderr.isatty() or _in_a_notebook())):
        yield lambda _done, _total: None
        return
    from tqdm.auto import tqdm

    with tqdm(unit=f" {unit}", leave=False, dynamic_ncols=True) as bar:

        def advance(done: int, total: int | None) -> None:
            if total is not None and bar.total != total:
                bar.reset(total)
            bar.update(done - bar.n)

        yield advance


def _in_a_notebook() -> bool:
    """Whether a kernel runs this; that one was imported says nothing."""
    asked = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(asked(), "kernel", None) is not None
