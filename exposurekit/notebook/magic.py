"""Register ``%exposure`` in IPython: the magic, its completions and its errors."""

import re
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand, output_can_be_silenced

from exposurekit.errors import ExposureError
from exposurekit.notebook.commands import describe_command, run_command, verbs
from exposurekit.notebook.completion import CompletionValues, completions
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.text.sanitize import plain

NAME = "exposure"
_CALL = re.compile(r"(?<![\w.])(?:(?:exposure|history)\.)?([a-z_]+)\(\)")  # without arguments
_MATCHER = "exposurekit"
_PRIORITY = 2_000.0  # before IPython's own matchers


def load(shell: Any) -> None:
    """Add the magic to a shell, replacing an earlier one."""
    unload(shell)
    context = NotebookContext(lambda: shell.user_ns)
    # no_var_expand: completed site names come from outside, so braces and dollars in a line are not evaluated.
    values = CompletionValues(context)
    magic = no_var_expand(output_can_be_silenced(_magic(context, values)))
    shell.register_magic_function(magic, "line", NAME)
    shell.Completer.custom_matchers.append(_matcher(values))


def unload(shell: Any) -> None:
    """Remove the magic from a shell."""
    shell.magics_manager.magics["line"].pop(NAME, None)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != _MATCHER]


def _magic(notebook: NotebookContext, values: CompletionValues) -> Any:
    def exposure(line: str) -> Any:
        try:
            result = run_command(notebook, line)
            values.remember(result)
        except ExposureError as error:
            message = str(error)
        except KeyboardInterrupt as stopped:
            raise stopped.with_traceback(None) from None
        except Exception as error:  # noqa: BLE001  the traceback's frames contain personal data and keys
            message = (
                f"{type(error).__name__}: run the same in Python, such as exposure.records(), for a traceback"
            )
        else:
            return result
        raise UsageError(plain(_CALL.sub(_as_line, message)))

    exposure.__doc__ = describe_command()
    return exposure


def _as_line(call: re.Match[str]) -> str:
    """A call that an error advises, as a line of the magic."""
    verb = call[1].replace("_", "-")
    return f"%exposure {verb}" if verb in verbs() else call[0]


def _matcher(values: CompletionValues) -> Any:
    def match(context: CompletionContext) -> SimpleMatcherResult:
        try:
            last, texts = completions(context.text_until_cursor, values)
        except Exception:  # noqa: BLE001  IPython would print the traceback into the input line
            last, texts = "", []
        matches = [SimpleCompletion(text=text, type="magic") for text in texts]
        return {"completions": matches, "matched_fragment": last, "ordered": True, "suppress": bool(texts)}

    return context_matcher(identifier=_MATCHER, priority=_PRIORITY)(match)
