"""IPython's side of ``%exposure``: the magic, its completions and its errors. The only room that knows IPython."""

from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand, output_can_be_silenced

from exposurekit.errors import ExposureError
from exposurekit.notebook.commands import describe_command, run_command
from exposurekit.notebook.completion import completions
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.text.sanitize import plain

NAME = "exposure"
_MATCHER = "exposurekit"
_FIRST = 2_000.0  # before IPython's own, which know nothing of this line


def load(shell: Any) -> None:
    """Give a shell the magic; one that has it already is given a new one in its place."""
    unload(shell)
    desk = NotebookContext(lambda: shell.user_ns)
    # What stands in braces or behind a dollar is not run: names of sites may be completed into the line.
    magic = no_var_expand(output_can_be_silenced(_magic(desk)))
    shell.register_magic_function(magic, "line", NAME)
    shell.Completer.custom_matchers.append(_matcher(desk))


def unload(shell: Any) -> None:
    """Take it away again."""
    shell.magics_manager.magics["line"].pop(NAME, None)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != _MATCHER]


def _magic(desk: NotebookContext) -> Any:
    def exposure(line: str) -> Any:
        try:
            return run_command(desk, line)
        except ExposureError as error:
            said = str(error)
        except KeyboardInterrupt as stopped:
            raise stopped.with_traceback(None) from None
        except Exception as error:  # noqa: BLE001  the frames below hold people and keys: none of them is shown
            said = f"that failed ({type(error).__name__}); the same in Python, such as exposure.records(), shows where"
        raise UsageError(plain(said))

    exposure.__doc__ = describe_command()
    return exposure


def _matcher(desk: NotebookContext) -> Any:
    def match(context: CompletionContext) -> SimpleMatcherResult:
        try:
            last, found = completions(context.text_until_cursor, desk)
        except Exception:  # noqa: BLE001  IPython would print the traceback into the line that is being typed
            last, found = "", []
        shown = [SimpleCompletion(text=one, type="magic") for one in found]
        return {"completions": shown, "matched_fragment": last, "ordered": True, "suppress": bool(found)}

    return context_matcher(identifier=_MATCHER, priority=_FIRST)(match)
